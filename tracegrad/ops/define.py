"""What an op is, and the decorator that makes one from a single paragraph.

The body of the decorated function is three things at once: the implementation on plain
arrays (`op.run`), the template that code generation parses, and the documentation.
Positional parameters are arrays; keyword-only parameters are static and hashable.

Nothing here knows of tracing or of eager tensors.  `HANDLERS` maps an exact argument
type to the function that takes the call over; those layers fill it.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracegrad.ops.sample import Sample

Rule = Callable[..., Any]

OPS: dict[str, Op] = {}
HANDLERS: dict[type, Callable[[Op, tuple, dict], Any]] = {}

# User spellings -> the function that maps a NumPy call onto ops.  Keys are NumPy
# callables, (ufunc, method name) pairs, and "module:name" strings for libraries that
# are imported only if the user does.
ACCEPT: dict[Any, Callable[..., Any]] = {}
# ndarray method or attribute name -> function of (array, *args, **kwargs).
METHODS: dict[str, Callable[..., Any]] = {}
# Callables that write into their first argument (`np.put_along_axis`, `(np.add, "at")`,
# and the method names "fill", "sort") -> function that returns its new value.
UPDATES: dict[Any, Callable[..., Any]] = {}
PROPERTIES: dict[str, Callable[[Any], Any]] = {}
# What takes a user's call -> the op that it stands for.  A function that composes ops
# is not here, unless its result is a constant for every derivative: then as None.
STANDS_FOR: dict[Callable[..., Any], Op | None] = {}
# Type of another library's tensors -> what takes over the call of a compiled function
# in which one occurs: `(name, flat, args, kwargs) -> result`, see `runtime.tensors`.
CALLS: dict[type, Callable[..., Any]] = {}
# Python operator ("__add__") -> op.
OPERATORS: dict[str, Op] = {}


class Batch(enum.Enum):
    """How an op runs over a batch, a new leading axis of some of its inputs."""

    #: Element by element: inputs are aligned, and it runs as it is.
    MAP = enum.auto()
    #: `axis` moves by one; None, which stands for all axes, becomes all but the first.
    REDUCE = enum.auto()
    #: `axis` moves by one; None, which flattens, flattens each example.
    LANE = enum.auto()
    #: Works on trailing axes, whatever axes lead.
    MATRIX = enum.auto()


class Op:
    """One operation: body, type inference, derivative rule, spellings, samples.

    Attributes:
        name: unique; the name of the decorated function.
        run: the body on plain arrays.
        params: names of the array parameters (the last may be variadic).
        variadic: whether the last parameter is `*args`.
        defaults: static attributes and their defaults (`inspect.Parameter.empty` where
            there is none).
        infer: `(*types, **attrs) -> ArrayType | tuple[ArrayType, ...]`.
        rules: per input, a rule `(ct, out, *inputs, **attrs) -> ct or None`.
        rule: or one rule for all inputs, returning one cotangent (for one input) or a
            tuple.
        batch_rule: how it runs over a batch; a `Batch`, or a rule, see `batch`.
        link_rule: which elements the output reads, see `links`.
        tangent: a rule of forward mode, where one is shorter than the transposed `vjp`.
        aliases: "view" if the output shares memory with the first input, "maybe" if it
            may (reshape), None if it is always fresh; or a function of the attributes
            that says so (`aliasing` asks it).
        type_only: positions of inputs whose shape and dtype are read, never the data.
        helper: whether emitted code calls the body as a function of its own even though
            it is one expression.
        noun: stem of the names that code generation gives to unnamed results; one word
            for each output, or one for all.
        operator: the Python operator that records this op, such as "__add__".
        spelling: how the user writes it, for errors (`np.tanh`).
        cheap: whether recomputing costs no more than one arithmetic operation.
        finite: whether its value and its slope are finite wherever its inputs are.
        connective: "and", "or" or "not", which Python code writes for it of truths.
        linear: whether the op is linear in all of its inputs together; or the names of
            those that it is linear in, the others being indices.
        inplace: body that updates the first input in place, for code generation.
        bodies: backend name -> body, where a library differs from NumPy.
        emitter: `(inputs: list[ast.expr], attrs) -> ast.expr`, for the few ops whose
            arguments nest in a way that no body can write; `xp` names the library.
        whole: if another op makes this one's output among others, that op, the position
            of the output and the attributes that it takes besides.
        guards: whether its nodes have no output, and raise where a call takes another
            way than the traced one (`ops/control_guard.py`).
        binds: the attribute that is a symbolic size, of which the output is the number.
        samples: calls that the generic tests run.
    """

    __slots__ = (
        "aliases",
        "batch_rule",
        "binds",
        "bodies",
        "cheap",
        "connective",
        "defaults",
        "emitter",
        "finite",
        "guards",
        "helper",
        "infer",
        "inplace",
        "linear",
        "link_rule",
        "name",
        "noun",
        "operator",
        "params",
        "rule",
        "rules",
        "run",
        "samples",
        "spelling",
        "tangent",
        "type_only",
        "variadic",
        "whole",
    )

    def __init__(self, body: Callable[..., Any], infer: Callable[..., Any]) -> None:
        self.name = body.__name__
        self.run = body
        self.infer = infer
        signature = inspect.signature(body).parameters.values()
        kinds = inspect.Parameter
        arrays = [p for p in signature if p.kind is not kinds.KEYWORD_ONLY]
        self.params = tuple(p.name for p in arrays)
        self.variadic = any(p.kind is kinds.VAR_POSITIONAL for p in arrays)
        self.defaults = {
            p.name: p.default for p in signature if p.kind is kinds.KEYWORD_ONLY
        }
        self.rules: tuple[Rule | None, ...] | None = None
        self.rule: Rule | None = None
        self.tangent: Rule | None = None
        self.batch_rule: Batch | Rule | None = None
        self.link_rule: Rule | None = None
        self.aliases: str | Callable[..., str | None] | None = None
        self.type_only: tuple[int, ...] = ()
        self.helper = False
        self.noun = self.name
        self.operator: str | None = None
        self.spelling = f"np.{self.name}"
        self.cheap = False
        self.finite = False
        self.connective: str | None = None
        self.linear: bool | tuple[str, ...] = False
        self.inplace: Callable[..., Any] | None = None
        self.bodies: dict[str, Callable[..., Any]] = {}
        self.emitter: Callable[..., Any] | None = None
        self.whole: tuple[Op, int, dict[str, Any]] | None = None
        self.guards = False
        self.binds: str | None = None
        self.samples: tuple[Sample, ...] = ()

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Record, run eagerly, or compute, by the exact types of the arguments.

        A call without array arguments (`zeros(shape=(n, 3))`) goes to the handler of
        `type(None)`, which a trace sets for symbolic sizes.
        """
        for x in args or (None,):
            handler = HANDLERS.get(type(x))
            if handler is not None:
                return handler(self, args, attrs)
        return self.run(*args, **attrs)

    def is_linear_in(self, position: int) -> bool:
        """Whether the op is linear in this input, together with others."""
        if isinstance(self.linear, bool):
            return self.linear
        return self.params[min(position, len(self.params) - 1)] in self.linear

    @property
    def differentiable(self) -> bool:
        """Whether the op has a derivative rule for some input."""
        return self.rule is not None or self.rules is not None

    def aliasing(self, attrs: dict[str, Any]) -> str | None:
        """How the output shares memory with the first input: "view", "maybe", None."""
        return self.aliases(**attrs) if callable(self.aliases) else self.aliases

    def vjp(self, rule: Rule) -> Rule:
        """Decorator: one rule `(ct, out, *inputs, **attrs)` for all inputs.

        It returns one cotangent for an op with one input, else a tuple with an entry
        per input (a list for the inputs of a variadic op), `None` for zero.
        """
        self.rule = rule
        return rule

    def jvp(self, rule: Rule) -> Rule:
        """Decorator: forward mode by hand, `(t, out, *inputs, **attrs)`.

        `t` is the tangent of the input, or a tuple with one for each of several inputs,
        `None` for zero; so is the result for the outputs.  Most ops need no such rule:
        their `vjp` is transposed.
        """
        self.tangent = rule
        return rule

    def batch(self, rule: Rule) -> Rule:
        """Decorator: how the op runs over a batch, `(b, *inputs, **attrs)`.

        Inputs with `b.has(position)` have a further leading axis, as the result must
        have; `b` has the size of it and helps to add it.
        """
        self.batch_rule = rule
        return rule

    def links(self, rule: Rule) -> Rule:
        """Decorator: which elements of an input each element of the output reads.

        `(k, *inputs, **attrs)` gives a matrix with a row for each element of the output
        and a column for each of input `k`, whose nonzeros say so, or None where that
        is not known.  An input is its data where that is constant, else its shape.
        """
        self.link_rule = rule
        return rule

    def body(self, backend: str) -> Callable[[Callable], Callable]:
        """Decorator: the body for a backend whose library differs from NumPy."""

        def register(function: Callable) -> Callable:
            self.bodies[backend] = function
            return function

        return register

    def in_place(self, function: Callable) -> Callable:
        """Decorator: the body that updates the first input in place."""
        self.inplace = function
        return function

    def emit(self, function: Callable) -> Callable:
        """Decorator: builds the expression that code generation prints."""
        self.emitter = function
        return function

    def part_of(self, whole: Op, position: int, **attrs: Any) -> None:
        """Say that `whole` makes this op's output too; see `Op.whole`."""
        self.whole = whole, position, attrs

    def accept(
        self, *spellings: Any, methods: Iterable[str] = ()
    ) -> Callable[[Callable], Callable]:
        """Decorator: the function takes calls that this op stands for; see `accept`."""

        def register(function: Callable) -> Callable:
            STANDS_FOR[function] = self
            return accept(*spellings, methods=methods)(function)

        return register


def op(
    *,
    infer: Callable[..., Any],
    vjp: Sequence[Rule | None] | None = None,
    samples: Iterable[Sample] = (),
    aliases: str | Callable[..., str | None] | None = None,
    type_only: tuple[int, ...] = (),
    helper: bool = False,
    noun: str | None = None,
    operator: str | None = None,
    accepts: Iterable[Any] = (),
    methods: Iterable[str] = (),
    spelling: str | None = None,
    cheap: bool = False,
    finite: bool = False,
    linear: bool | tuple[str, ...] = False,
    batch: Batch | None = None,
) -> Callable[[Callable[..., Any]], Op]:
    """Make an op of the decorated function.

    Args:
        infer: result type from argument types and attributes.
        vjp: one rule per input, `None` for an input without derivative.
        samples: what the generic tests run; every op needs some.
        aliases: "view" or "maybe", see `Op.aliases`.
        type_only: see `Op.type_only`.
        helper: see `Op.helper`.
        noun: see `Op.noun`; the op's name by default.
        operator: Python operator that records this op.
        accepts: NumPy callables whose positional call is this op's.
        methods: ndarray methods whose positional call is this op's.
        spelling: how the user writes it, when that is not `np.<name>`.
        cheap: see `Op.cheap`.
        finite: see `Op.finite`.
        linear: see `Op.linear`.
        batch: see `Op.batch_rule`.
    """

    def make(body: Callable[..., Any]) -> Op:
        made = Op(body, infer)
        if made.name in OPS:
            raise RuntimeError(f"two ops are called {made.name!r}")
        made.rules = None if vjp is None else tuple(vjp)
        made.samples = tuple(samples)
        made.aliases = aliases
        made.type_only = type_only
        made.helper = helper
        made.noun = noun or made.name
        made.operator = operator
        made.cheap, made.finite = cheap, finite
        made.linear = linear
        made.batch_rule = batch
        made.spelling = spelling or made.spelling
        OPS[made.name] = made
        if operator is not None:
            OPERATORS[operator] = made
        made.accept(*accepts, methods=methods)(made)
        return made

    return make


def accept(
    *spellings: Any,
    methods: Iterable[str] = (),
    properties: Iterable[str] = (),
    updates: Iterable[Any] = (),
    constant: bool = False,
) -> Callable[[Callable], Callable]:
    """Decorator: the function takes a user's call of any of `spellings`.

    The function has NumPy's signature and calls ops; it may be a composition with no
    op of its own.  Arguments arrive as the user wrote them: traced values, arrays,
    Python scalars, lists of these.

    Args:
        *spellings: NumPy callables, (ufunc, "reduce") pairs, "scipy.special:erf".
        methods: ndarray methods; the array is the first argument.
        properties: ndarray attributes; the array is the only argument.
        updates: callables and method names that write into their first argument; the
            function returns its new value.
        constant: whether no derivative goes through the result, by its nature.
    """

    def register(function: Callable) -> Callable:
        if constant:
            STANDS_FOR[function] = None
        for spelling in spellings:
            ACCEPT[spelling] = function
        for name in methods:
            METHODS[name] = function
        for name in properties:
            PROPERTIES[name] = function
        for spelling in updates:
            UPDATES[spelling] = function
        return function

    return register
