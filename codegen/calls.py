"""Bodies that are called by name: a function of the module for each."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

from tracegrad.codegen.names import Namer, identifier
from tracegrad.codegen.printer import docstring
from tracegrad.codegen.template import Context, name
from tracegrad.ir.routine import Parameter, Routine
from tracegrad.ir.tree import Branch, Leaf, Tree
from tracegrad.ops.call import Body

Write = Callable[[Routine], ast.FunctionDef]


def function_of(body: Body, context: Context, write: Write) -> ast.expr:
    """The name of the function that a body is emitted as.

    Bodies that read alike share a function: a layer that is used three times is
    written once.

    Args:
        body: after all passes.
        context: of the module; it gets the function.
        write: makes the definition of a routine.
    """
    stem = identifier(body.name)
    if stem in context.functions:
        stem = own_name(stem)
    number = 1
    while True:
        wanted = stem if number == 1 else f"{stem}_{number}"
        made = _definition(body, wanted, context, write)
        have = context.helpers.get(wanted)
        if have is None:
            context.helpers[wanted] = made
        if have is None or ast.dump(have) == ast.dump(made):
            return name(wanted)
        number += 1


def own_name(stem: str) -> str:
    """What a body is called beside a function of its name that calls it."""
    return f"{stem}_body"


def _definition(
    body: Body, wanted: str, context: Context, write: Write
) -> ast.FunctionDef:
    graph = body.graph
    namer = Namer([])
    parameters = tuple(
        [
            Parameter(
                namer.claim(v.hint or "x"),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                Leaf(v),
            )
            for v in graph.params
        ]
    )
    leaves: list[Tree] = [Leaf(v) for v in graph.results]
    result = leaves[0]
    if len(leaves) > 1:
        keys = tuple(range(len(leaves)))
        result = Branch("tuple", tuple, keys, tuple(leaves), tuple)
    routine = Routine(wanted, wanted, None, parameters, graph, result, wanted)
    sizes, claim = context.sizes, context.claim
    made = write(routine)
    context.sizes, context.claim = sizes, claim
    text = body.doc or f"`{body.name}`, as it was traced."
    made.body.insert(0, docstring(text, 1))
    return made
