"""What a span of the user's code may do besides computing: the static part.

A span may be traced without being taken only if all that it does is to bind local names
and to write into traced arrays.  The syntax tree says so of its statements; what its
calls and attributes are is asked when they run, see `joins.py`.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Sequence

_ALLOWED = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass),
    *(ast.If, ast.While, ast.For, ast.Return, ast.Break, ast.Continue),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call),
    *(ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Constant),
    *(ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.Starred),
    *(ast.comprehension, ast.keyword),
    *(ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop),
)
_LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def is_pure(nodes: Sequence[ast.AST]) -> bool:
    """Whether code binds names and computes, and does nothing else that shows."""
    for node in nodes:
        for part in ast.walk(node):
            if not isinstance(part, _ALLOWED):
                return False
            if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
                return False
            if isinstance(part, ast.Expr) and not isinstance(
                part.value, ast.Call | ast.Constant
            ):
                return False
            if isinstance(part, ast.Starred) and isinstance(part.ctx, ast.Store):
                return False  # makes a list
    return True


def own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's or a span's own scope."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES):
            yield child
        else:
            yield from own(child)


def assigned(nodes: Sequence[ast.AST]) -> list[str]:
    """The names that statements bind, in order; those of comprehensions are apart."""
    found: dict[str, None] = {}

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        if isinstance(node, ast.comprehension):
            look(node.iter)
            return
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _SCOPES):
                look(child)

    for node in nodes:
        look(node)
    return list(found)


def loads(nodes: Sequence[ast.AST]) -> list[str]:
    """Each read of a name, nested functions included."""
    # `y += 1` reads what it binds.
    return [
        name.id
        for node in nodes
        for part in ast.walk(node)
        for name in [part.target if isinstance(part, ast.AugAssign) else part]
        if isinstance(name, ast.Name)
        and (part is not name or isinstance(name.ctx, ast.Load))
    ]


def leaves_loop(nodes: Sequence[ast.AST], *, returns: bool = True) -> bool:
    """Whether control leaves statements otherwise than at their end.

    Args:
        nodes: statements.
        returns: whether a `return` counts.
    """
    for node in nodes:
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.Return) and returns:
            return True
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, _LOOPS):
            if returns and any(isinstance(n, ast.Return) for n in own(node)):
                return True
            if leaves_loop(node.orelse, returns=returns):
                return True
        elif leaves_loop(list(ast.iter_child_nodes(node)), returns=returns):
            return True
    return False


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end with a `return` on every way."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return):
        return True
    return (
        isinstance(last, ast.If)
        and always_returns(last.body)
        and always_returns(last.orelse)
    )


def binds_first(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether statements bind a name before anything in them could read it."""
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Assign) and name in assigned(statement.targets):
            return name not in loads([statement])
        if isinstance(statement, ast.For) and name in assigned([statement.target]):
            # Behind it the name may not be bound, for the loop need not turn.
            return name not in loads(
                [statement.iter, *statement.orelse, *body[i + 1 :]]
            )
        if name in loads([statement]) or name in assigned([statement]):
            return False
    return True


def counted(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements bind by adding a fixed int only: `n += 1`."""
    good: set[str] = set()
    bad: set[str] = set()
    for statement in body:
        for node in own(statement):
            match node:
                case ast.AugAssign(
                    target=ast.Name(id=name),
                    op=ast.Add() | ast.Sub(),
                    value=ast.Constant(value=int()),
                ):
                    good.add(name)
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.BinOp(
                        left=ast.Name(id=read),
                        op=ast.Add() | ast.Sub(),
                        right=ast.Constant(value=int()),
                    ),
                ) if read == name:
                    good.add(name)
                case ast.Assign(targets=targets):
                    bad.update(assigned(targets))
                case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                    bad.update(assigned([target]))
                case ast.For(target=target):
                    bad.update(assigned([target]))
    return good - bad


def updated(body: Sequence[ast.stmt]) -> list[str]:
    """Names that statements bind by `x += …` only, which changes an array in place."""
    targets = [
        node.target.id
        for statement in body
        for node in own(statement)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    ]
    bound = Counter(
        node.id
        for statement in body
        for node in own(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return [name for name, n in Counter(targets).items() if bound[name] == n]


# ---------------------------------------------------------------------- other spelling
def normalised(body: list[ast.stmt], in_loop: bool = False) -> list[ast.stmt]:
    """The same statements with what follows an early end of an arm as the other arm.

    `if c: return a` and then `rest` becomes `if c: return a` with `else: rest`, and
    the same for `continue` in the body of a loop.  A `while True` with one `break`
    becomes a loop with a test.
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
        if isinstance(statement, _LOOPS):
            statement.body = normalised(statement.body, True)
            made += _rotated(statement)
            continue
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(statement, field, None)
            if isinstance(inner, list) and not isinstance(statement, _SCOPES):
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
