"""The user's statements in the one spelling that the tracer knows how to join.

An early end of an arm becomes a second arm, and a loop that is left early becomes a
loop with a test:

    for x in xs:          done, turns, turn = False, runtime.turns(xs), 0
        a                 while runtime.more(done, turns, turn):
        if c:                 x = runtime.item(turns, turn)
            b                 turn += 1
            break             done = False
        d                     a
                              if c:
                                  b
                                  done = True
                              else:
                                  d

A `return` in the loop is a `break`, and a `return` behind the loop where it is done.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator

from tracegrad.trace.effects import (
    LOOPS,
    SCOPES,
    always_returns,
    is_pure,
    leaves_loop,
)

# The name under which compiled functions reach `staged.RUNTIME`.
RUNTIME_NAME = "_tracegrad_"


def hint_of(name: str) -> str:
    """The name to print, which is shorter for one that was made here."""
    if not is_made(name):
        return name
    return name.removeprefix(RUNTIME_NAME).partition("_")[0]


def is_made(name: str) -> bool:
    """Whether a name was made here, for what nothing of the user's reads."""
    return name.startswith(RUNTIME_NAME) and name != RUNTIME_NAME


def runtime_call(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of the runtime, without a place."""
    runtime = ast.Name(RUNTIME_NAME, ast.Load())
    return ast.Call(ast.Attribute(runtime, name, ast.Load()), list(arguments), [])


def is_runtime_call(node: ast.Call) -> bool:
    """Whether a call is one of these."""
    match node.func:
        case ast.Attribute(value=ast.Name(id=name)):
            return name == RUNTIME_NAME
    return False


def turns_named(body: list[ast.stmt]) -> set[str]:
    """Names that statements bind only to what the turn of a loop is for."""
    bound = Counter(
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.Assign(targets=[target], value=ast.Call() as value):
                if is_runtime_call(value):
                    found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return {name for name in found if bound[name] == 1}


def placed(made: ast.AST, at: ast.AST) -> None:
    """Give a tree the place of another where it has none."""
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, at)


def normalised(body: list[ast.stmt], in_loop: bool = False) -> list[ast.stmt]:
    """The same statements with what follows an early end of an arm as the other arm.

    `if c: return a` and then `rest` becomes `if c: return a` with `else: rest`, and
    the same for `continue` in the body of a loop.  Loops that are left early become
    loops with a test.
    """
    made: list[ast.stmt] = []
    for i, statement in enumerate(body):
        rest = body[i + 1 :]
        if isinstance(statement, ast.If):
            ends = always_returns(statement.body), always_returns(statement.orelse)
            taken = True
            if ends == (True, False):
                statement.orelse = statement.orelse + rest
            elif ends == (False, True):
                statement.body = statement.body + rest
            elif in_loop and _continues(statement):
                statement.body = statement.body[:-1] or [_pass(statement)]
                statement.orelse = rest
            else:
                taken = False
            statement.body = normalised(statement.body, in_loop)
            statement.orelse = normalised(statement.orelse, in_loop)
            made.append(statement)
            if taken:
                return made
            continue
        if isinstance(statement, LOOPS):
            statement.body = normalised(statement.body, True)
            *before, last = _with_test(statement)
            made += before
            if isinstance(last, ast.If):  # a `return` that was in the loop
                return made + normalised([last, *rest], in_loop)
            made.append(last)
            continue
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(statement, field, None)
            if isinstance(inner, list) and not isinstance(statement, SCOPES):
                setattr(statement, field, normalised(inner, in_loop))
        made.append(statement)
    return made


def _continues(statement: ast.If) -> bool:
    return (
        isinstance(statement.body[-1], ast.Continue)
        and not statement.orelse
        and not leaves_loop(statement.body[:-1], returns=False)
    )


def _pass(at: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Pass(), at)


def _rotated(loop: ast.stmt) -> list[ast.stmt]:
    """`while True: a; if c: break; b` as `a; while not c: b; a`."""
    if not (isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant)):
        return [loop]
    if not loop.test.value or loop.orelse:
        return [loop]
    for i, statement in enumerate(loop.body):
        if not isinstance(statement, ast.If) or not _breaks(statement):
            continue
        before, after = loop.body[:i], loop.body[i + 1 :] + statement.orelse
        if statement.orelse and loop.body[i + 1 :]:
            return [loop]
        if leaves_loop([*before, *after], returns=False):
            return [loop]
        test = ast.copy_location(ast.UnaryOp(ast.Not(), statement.test), statement.test)
        loop.test = test
        loop.body = [*after, *before] or [_pass(loop)]
        return [*copy.deepcopy(before), loop, *statement.body[:-1]]
    return [loop]


def _breaks(statement: ast.If) -> bool:
    return isinstance(statement.body[-1], ast.Break) and not leaves_loop(
        statement.body[:-1], returns=False
    )


# ------------------------------------------------------------------ loops left early
def _with_test(loop: ast.For | ast.While) -> list[ast.stmt]:
    """The statements for a loop: itself, or those of a loop that has a test instead."""
    made = _rotated(loop)
    if len(made) > 1 or not _leaves(loop) or not is_pure([loop]):
        return made
    where = f"{loop.lineno}_{loop.col_offset}"
    done, turns, turn = [
        f"{RUNTIME_NAME}{name}_{where}" for name in ("done", "turns", "turn")
    ]
    behind = _return_behind(loop, done)
    if behind is None:
        return [loop]
    before: list[ast.stmt] = [_bound(done, ast.Constant(False))]
    body = _without_breaks(loop.body, done)
    going = _bound(done, ast.Constant(False))  # as it must be, where a turn begins
    if isinstance(loop, ast.For):
        before.append(_bound(turns, _turns_of(loop.iter)))
        before.append(_bound(turn, ast.Constant(0)))
        test: ast.expr = runtime_call("more", _read(done), _read(turns), _read(turn))
        item = runtime_call("item", _read(turns), _read(turn))
        count = ast.AugAssign(ast.Name(turn, ast.Store()), ast.Add(), ast.Constant(1))
        body = [ast.Assign([loop.target], item), count, going, *body]
        at: ast.expr = loop.iter
    elif isinstance(loop.test, ast.Constant) and loop.test.value:
        test, at, body = _not(done), loop.test, [going, *body]
    else:
        test = runtime_call("still", _read(done), loop.test)
        at, body = loop.test, [going, *body]
    if loop.orelse:
        behind = [ast.If(_not(done), loop.orelse, []), *behind]
    out = [*before, ast.While(test, body, []), *behind]
    for statement in out:
        placed(statement, at)
    return out


def _turns_of(iterable: ast.expr) -> ast.expr:
    """What a loop runs over; a call keeps its parts, for `zip` is looked through."""
    match iterable:
        case ast.Call(func=function, args=args, keywords=named):
            if not any(isinstance(a, ast.Starred) for a in args):
                inner = [_turns_of(a) if _is_together(a) else a for a in args]
                parts = inner if _is_together(iterable) else args
                made = runtime_call("turns_of", function, *parts)
                made.keywords = named
                return made
    return runtime_call("turns", iterable)


def _is_together(node: ast.expr) -> bool:
    """Whether it is a call of `zip` or `enumerate`, by its name."""
    match node:
        case ast.Call(func=ast.Name(id="zip" | "enumerate")):
            return True
    return False


def _leaves(loop: ast.For | ast.While) -> list[tuple[ast.stmt, bool]]:
    """Its own breaks, and its returns; with each whether it stands in an inner loop."""

    def look(body: list[ast.stmt], inner: bool) -> Iterator[tuple[ast.stmt, bool]]:
        for node in body:
            if isinstance(node, ast.Return) or (
                isinstance(node, ast.Break) and not inner
            ):
                yield node, inner
            elif isinstance(node, ast.If):
                yield from look([*node.body, *node.orelse], inner)
            elif isinstance(node, LOOPS):
                yield from look(node.body, True)
                yield from look(node.orelse, inner)

    return list(look(loop.body, False))


def _return_behind(loop: ast.For | ast.While, done: str) -> list[ast.stmt] | None:
    """Make the one `return` in a loop a `break`; the statements to put behind the loop.

    None if it has several, or breaks besides.
    """
    leaves = _leaves(loop)
    returns = [node for node, _ in leaves if isinstance(node, ast.Return)]
    if not returns:
        return []
    if len(leaves) > 1 or leaves[0][1]:
        return None
    (found,) = returns

    class Breaking(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> ast.stmt:
            return ast.copy_location(ast.Break(), node)

    loop.body = [Breaking().visit(statement) for statement in loop.body]
    behind = ast.If(_read(done), [found], [])
    return [ast.copy_location(behind, found)]


def _without_breaks(body: list[ast.stmt], done: str) -> list[ast.stmt]:
    """Statements that set a flag where they left the loop, and then do nothing."""
    made: list[ast.stmt] = []
    for i, node in enumerate(body):
        if isinstance(node, ast.Break):
            flag = _bound(done, ast.Constant(True))
            return [*made, ast.copy_location(flag, node)]
        leaving = isinstance(node, ast.If) and leaves_loop([node], returns=False)
        if not isinstance(node, ast.If) or not leaving:
            made.append(node)
            continue
        rest = body[i + 1 :]
        if _always_breaks(node.body):
            node.orelse, rest = [*node.orelse, *rest], []
        elif _always_breaks(node.orelse):
            node.body, rest = [*node.body, *rest], []
        node.body = _without_breaks(node.body, done)
        node.orelse = _without_breaks(node.orelse, done)
        made.append(node)
        if rest:
            later = ast.If(_not(done), _without_breaks(rest, done), [])
            made.append(ast.copy_location(later, rest[0]))
        return made
    return made


def _always_breaks(body: list[ast.stmt]) -> bool:
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _always_breaks(last.body) and _always_breaks(last.orelse)
    return isinstance(last, ast.Break)


def _read(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _not(name: str) -> ast.expr:
    return ast.UnaryOp(ast.Not(), _read(name))


def _bound(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)
