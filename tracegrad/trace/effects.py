"""What a span of the user's code may do besides computing: the static part.

A span may be traced without being taken only if all that it does is to bind local names
and to write into traced arrays.  The syntax tree says so of its statements; what its
calls and attributes are is asked when they run, see `joins.py`.
"""

from __future__ import annotations

import ast
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
LOOPS = (ast.For, ast.While)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


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
        if isinstance(child, SCOPES):
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
            if not isinstance(child, SCOPES):
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
        if isinstance(node, SCOPES):
            continue
        if isinstance(node, LOOPS):
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
    return not _flow(body, name)[0]


def surely_binds(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether statements bind a name on every way, and read nothing older of it."""
    return _flow(body, name) == (False, True)


def _flow(body: Sequence[ast.stmt], name: str) -> tuple[bool, bool]:
    """Whether statements may read what a name was before, and surely bind it."""
    read = bound = False
    for statement in body:
        match statement:
            case ast.If(test=test, body=yes, orelse=no):
                ways = [_flow(yes, name), _flow(no, name)]
                reads = name in loads([test]) or any(r for r, _ in ways)
                binds = all(b for _, b in ways)
            case ast.For(target=target, iter=over, body=inner, orelse=no):
                held = name in assigned([target])
                reads = name in loads([over]) or (_flow(inner, name)[0] and not held)
                reads |= _flow(no, name)[0]
                binds = False  # the loop need not turn
            case ast.While(test=test, body=inner, orelse=no):
                reads = name in loads([test]) or _flow([*inner, *no], name)[0]
                binds = False
            case _:
                reads = name in loads([statement])
                binds = name in assigned([statement])
        read |= reads and not bound
        bound |= binds
    return read, bound


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


def tested(nodes: Sequence[ast.AST]) -> list[str]:
    """Each read of a name for its truth alone, and as what is returned."""
    found: list[str] = []

    def look(part: ast.expr | None) -> None:
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found.append(part.id)
        if isinstance(part, ast.Tuple):
            for inner in part.elts:
                look(inner)

    for node in nodes:
        for part in ast.walk(node):
            match part:
                case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                    if not isinstance(test, ast.Tuple):
                        look(test)
                case ast.UnaryOp(op=ast.Not(), operand=operand):
                    look(operand)
                case ast.BoolOp(values=values):
                    for value in values:
                        look(value)
                case ast.Return(value=value):
                    look(value)
    return found


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
