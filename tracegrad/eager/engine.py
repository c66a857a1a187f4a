"""Two functions for every op, generated at first use: `eager` and `pull`.

`entry_of(op)` makes them.  `entry.eager(*inputs, **attrs)` runs the op on tensors and
records a node; `entry.pull(node, ct, grads)` hands the cotangent of its output on to
its inputs.  The text is written from the op's arity, its attributes and from what its
rules read (`numeric.reads_of`), and entered in `linecache`.  What the short functions
are not made for goes to `general`: operands of different dtypes, Python numbers other
than the usual ones, several outputs, variadic ops.

Complex cotangents follow JAX's convention inside, as the rules do; `backward`
conjugates where PyTorch's user looks.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.modes import NAMESPACE as NAMES
from tracegrad.eager.nodes import Node, next_seq
from tracegrad.eager.numeric import (
    OUT,
    Like,
    hands_on,
    names_loaded,
    numeric,
    plain,
    reads_of,
)
from tracegrad.eager.runtime import (
    SCALARS,
    again,
    conform,
    f4,
    f8,
    finish,
    general,
    general_pull,
    link,
    saved_slots,
    scalar,
    scatter,
    without_nan,
)
from tracegrad.eager.saved import saved_attribute
from tracegrad.eager.second import recorded_pull
from tracegrad.eager.tensor import Tensor, new
from tracegrad.errors import TracegradError
from tracegrad.ops.define import HANDLERS, Op
from tracegrad.ops.infer import ufunc_dtypes
from tracegrad.ops.record import Scattered

_numbers = itertools.count()
_NO_DEFAULT = inspect.Parameter.empty


class Entry:
    """What eager mode knows of an op.

    Attributes:
        op: the op.
        run: computes it on plain arrays.
        elementwise: the ufunc whose promotion and broadcasting it follows, or None.
        title: the name of its `grad_fn`, or a function of the node that gives it.
        real: for an entry for complex operands, that for real ones.
        floats: whether integers are converted first, where NumPy's ufunc takes them.
        rules: a rule for each input, the op's own unless PyTorch's differ.
        zero: whether inputs without a rule have the derivative zero, not none.
        eager, pull: the generated functions.
        slots: numbers of the values that nodes save, `OUT` for the output.
        needs: for each parameter, the numbers that its cotangent reads.
        flows: for each parameter, whether it has a derivative at all.
        keeps: whether it is a ufunc of one dtype throughout.
        always: numbers of values that PyTorch saves for tensors, needed or not.
        reads: what a recorded rule reads in the place of the input, or None.
        refuses: for integers and bools: raises for operands that PyTorch refuses.
    """

    def __init__(self, op: Op, real: Entry | None = None) -> None:
        self.op = op
        self.real = real
        self.title: Any = "".join(p.title() for p in op.name.split("_")) + "Backward0"
        self.eager: Callable = self._first_eager
        self.reversed: Callable = self._first_reversed
        ufunc = getattr(op.infer, "ufunc", None)
        self.elementwise = ufunc if isinstance(ufunc, np.ufunc) else None
        self.zero = False
        self.floats = False
        self.always: tuple[int, ...] = ()
        self.reads: Callable | None = None
        self.refuses: Callable[[list, list], None] | None = None
        self.rules = op.rules
        self.ready = False

    def _first_eager(self, *args: Any, **attrs: Any) -> Any:
        self.prepare()
        return self.eager(*args, **attrs)

    def _first_reversed(self, *args: Any, **attrs: Any) -> Any:
        self.prepare()
        return self.reversed(*args, **attrs)

    def prepare(self) -> Entry:
        """Generate the functions, once."""
        if self.ready:
            return self
        op = self.op
        self.run = plain(op)
        self.keeps = self.elementwise is not None and _keeps_dtype(self)
        count = len(op.params)
        rules = self.rules
        self.flows = [op.rule is not None] * count
        if rules is not None:
            self.flows = [r is not None or self.zero for r in rules]
        self.needs: list[set[int]] = [set() for _ in op.params]
        if any(self.flows):
            self.needs = reads_of(op, rules, complex_too=self.real is not None)
        self.slots = tuple(sorted(set().union(*self.needs))) if count else ()
        simple = rules is not None and not op.variadic
        self.pull = _pull_function(self) if simple else general_pull(self)
        self.pull.entry = self  # type: ignore[attr-defined]
        self.pull.title = self._title  # type: ignore[attr-defined]
        self.pull.graph = recorded_pull(self)  # type: ignore[attr-defined]
        shown = functools.partial(saved_attribute, self)
        self.pull.attribute = shown  # type: ignore[attr-defined]
        if self.real is None:
            self.eager, self.reversed = _eager_functions(self)
        self.ready = True
        return self

    def for_complex(self) -> Entry:
        """The entry for complex operands, of which rules may read more."""
        made = self.__dict__.get("_complex")
        if made is None:
            made = Entry(self.op, real=self)
            made.zero, made.rules, made.title = self.zero, self.rules, self.title
            made.reads = self.reads
            made.prepare()
            # Most rules are the same for both.
            self._complex = made = self if made.needs == self.needs else made
        return made

    def safe_pull(self) -> Callable:
        """`pull`, with 0 where the cotangent is 0 and the slope is infinite."""
        if self.elementwise is None or self.rules is None:
            return self.pull
        made = self.__dict__.get("_safe")
        if made is None:
            made = self._safe = _pull_function(self, safe=True)
        return made

    def slots_of(self, node: Node) -> tuple[int, ...]:
        """The number of each value that `node` saved."""
        return saved_slots(self, node)

    def _title(self, node: Node) -> str:
        return self.title if isinstance(self.title, str) else self.title(node)


_entries: dict[str, Entry] = {}


def entry_of(op: Op) -> Entry:
    """The entry of an op; its functions are generated when they are first called."""
    found = _entries.get(op.name)
    if found is None:
        found = _entries.setdefault(op.name, Entry(op))
    return found


def handle(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """Run an op that was called with a tensor among its inputs."""
    entry = entry_of(op)
    for x in args:
        if type(x) is not Tensor:
            return general(entry, args, {**op.defaults, **attrs})
    return entry.eager(*args, **attrs)


HANDLERS[Tensor] = handle

# ------------------------------------------------------------------------- generation
NAMES.update(
    Tensor=Tensor,
    new=new,
    ndarray=np.ndarray,
    asarray=np.asarray,
    next_seq=next_seq,
    conform=conform,
    finish=finish,
    f4=f4,
    f8=f8,
    F4=SCALARS[f4],
    F8=SCALARS[f8],
    EMPTY={},
    Like=Like,
    again=again,
    Scattered=Scattered,
    scalar=scalar,
    scatter=scatter,
    ref=weakref.ref,
    zeros=np.zeros,
    zeros_like=np.zeros_like,
    without_nan=without_nan,
)


def compile_function(name: str, lines: list[str], names: dict[str, Any]) -> Callable:
    """Define one function in the common globals."""
    number = next(_numbers)
    text = "\n".join(lines) + "\n"
    unique = f"{name}_{number}"
    for key, value in names.items():
        NAMES[f"{key}_{number}"] = value
    text = re.sub(r"@(\w+)", rf"\1_{number}", text)
    text = text.replace(f"def {name}(", f"def {unique}(")
    filename = f"<tracegrad eager {unique}>"
    exec(compile(text, filename, "exec"), NAMES)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    made = NAMES.pop(unique)
    made.__name__ = made.__qualname__ = name
    return made


# ------------------------------------------------------------------------------- pull
def _pull_function(entry: Entry, safe: bool = False) -> Callable:
    """`pull` of an op with one output and a rule for each input.

    `safe` is the form that gives 0 where the cotangent is 0 and the slope infinite.
    """
    op = entry.op
    lines = [f"def pull_{op.name}(node, ct, grads):"]
    names: dict[str, Any] = {}
    count = len(op.params)
    attrs = ", **node[6]" if op.defaults else ""
    inputs = "".join(f"n{k}, " for k in range(count))
    if any(entry.flows):
        lines.append(f"    {inputs}= node[3]")
        lines.append("    m = node[5]")
    slots = "".join(f"{_local(s)}, " for s in entry.slots)
    for k, rule in enumerate(entry.rules or ()):
        if not entry.flows[k]:
            continue
        lines.append(f"    if n{k} is not None:")
        if hands_on(rule) and entry.elementwise is not None and not safe:
            lines.append("        g = ct")
            lines.extend(_hand_on_text(entry, k, safe)[1:])
            continue
        names[f"rule{k}"] = _no_rule if rule is None else numeric(rule)
        if entry.needs[k]:
            lines.append(f"        {slots}= node[4]")
        arguments = _rule_arguments(entry, k, rule)
        lines.append(f"        g = @rule{k}(ct, {arguments}{attrs})")
        lines.extend(_hand_on_text(entry, k, safe))
    lines.append("    return")
    return compile_function(f"pull_{op.name}", lines, names)


def _rule_arguments(entry: Entry, k: int, rule: Any) -> str:
    """What a rule is given: saved arrays, types of those not read, None."""
    count = len(entry.op.params)
    loaded = names_loaded(rule)
    code = getattr(rule, "__code__", None)
    if code is not None and code.co_argcount < count + 2:
        loaded = code = None  # it takes `*inputs`
    args = []
    for number in (OUT, *range(count)):
        name = None if code is None else code.co_varnames[number + 2]
        like = f"Like(m[{2 * number}], m[{2 * number + 1}])"
        if number in entry.needs[k]:
            args.append(_local(number))
        elif loaded is not None and name not in loaded:
            args.append("None")
        elif number == OUT:
            args.append("ct")
        elif entry.elementwise is not None:
            args.append(f"(ct if m is None else {like})")
        else:
            args.append(like)
    return ", ".join(args)


def _hand_on_text(entry: Entry, k: int, safe: bool) -> list[str]:
    """Lines that fit the cotangent `g` of input `k`, and add it up."""
    at = f"m[{2 * k}], m[{2 * k + 1}]"
    add = [f"s = n{k}[1]", "grads[s] = grads[s] + g if s in grads else g"]
    if entry.elementwise is not None:
        lines = ["if g is None: g = zeros_like(ct)"]
        if safe:
            lines.append("g = without_nan(g, ct)")
        lines.append(f"if m is not None: g = conform(g, {at})")
        lines.extend(add)
    else:
        lines = [
            f"if g is None: g = zeros({at})",
            "if type(g) is Scattered:",
            f"    scatter(g, grads, n{k}[1], {at})",
            "else:",
            f"    if g.shape != m[{2 * k}] or g.dtype is not m[{2 * k + 1}]:",
            f"        g = conform(g, {at})",
            *[f"    {line}" for line in add],
        ]
    return [f"        {line}" for line in lines]


def _no_rule(*args: Any, **attrs: Any) -> None:
    """The rule of an input whose derivative is zero everywhere."""


def _local(slot: int) -> str:
    return "out" if slot == OUT else f"x{slot}"


# ------------------------------------------------------------------------------ eager
def _saved_text(entry: Entry) -> str:
    """The expression for what a node saves: only what a recorded input needs."""
    flowing = [k for k, flows in enumerate(entry.flows) if flows]
    if not entry.slots:
        return "None"

    def when(slots: Any) -> str | None:
        asking = [k for k in flowing if entry.needs[k] & slots]
        if asking == flowing:
            return None
        return " or ".join(f"n{k} is not None" for k in asking)

    parts = []
    for slot in entry.slots:
        value = "od" if slot == OUT else f"d{slot}"
        condition = when({slot})
        if condition and slot in entry.always:
            condition += " or t is Tensor"
        parts.append(f"{value} if {condition} else None" if condition else value)
    whole = f"({', '.join(parts)},)"
    condition = when(set(entry.slots))
    return f"({whole} if {condition} else None)" if condition else whole


def _keeps_dtype(entry: Entry) -> bool:
    """Whether floating and complex operands of one dtype give that dtype."""
    ufunc = entry.elementwise
    assert ufunc is not None
    for d in map(np.dtype, "efdFD"):
        try:
            made = ufunc_dtypes(ufunc, (d,) * ufunc.nin)
        except TracegradError:
            continue
        if made[0] != d:
            return False
    return True


def _eager_functions(entry: Entry) -> tuple[Callable, Callable]:
    """`eager`, and for a binary ufunc the same with swapped operands."""
    op = entry.op
    several = _has_several_outputs(op)
    sizes = len(op.type_only) == len(op.params)
    if op.variadic or several or sizes:

        def eager(*args: Any, **attrs: Any) -> Any:
            return general(entry, args, {**op.defaults, **attrs})

        return eager, eager
    if entry.elementwise is not None and len(op.params) == 2:
        return _binary(entry, "d0, d1"), _binary(entry, "d1, d0")
    made = _fixed(entry)
    return made, made


def _has_several_outputs(op: Op) -> bool:
    ufunc = getattr(op.infer, "ufunc", None)
    if isinstance(ufunc, np.ufunc):
        return ufunc.nout > 1
    sample = op.samples[0]
    arrays = sample.make()
    return isinstance(plain(op)(*arrays, **sample.attrs), tuple | list)


def _fixed(entry: Entry) -> Callable:
    """`eager` of an op with a fixed number of inputs, all of them tensors."""
    op = entry.op
    count = len(op.params)
    params = [f"x{k}" for k in range(count)]
    if entry.elementwise is not None and count == 1:
        params = ["input"]  # as PyTorch's users may write it
    signature, passed, attrs = ", ".join(params), "", "None"
    names = {"entry": entry, "run": entry.run, "pull": entry.pull, "general": general}
    if op.defaults:
        keywords = []
        for name, value in op.defaults.items():
            if value is _NO_DEFAULT:
                keywords.append(name)
            else:
                names[f"default_{name}"] = value
                keywords.append(f"{name}=@default_{name}")
        signature += ", *, " + ", ".join(keywords)
        passed = ", " + ", ".join(f"{name}={name}" for name in op.defaults)
        attrs = "{" + ", ".join(f"{name!r}: {name}" for name in op.defaults) + "}"
    if entry.elementwise is not None:
        signature += ", out=None" if op.defaults else ", *, out=None"
    given = attrs if op.defaults else "{}"
    tuple_of = f"({', '.join(params)},)"
    out = ", out" if entry.elementwise is not None else ""
    checks = " or ".join(f"type({x}) is not Tensor" for x in params)
    unary_ufunc = entry.elementwise is not None and count == 1
    lines = [f"def eager_{op.name}({signature}):"]
    lines.append(f"    if {checks}:")
    lines.append(f"        return @general(@entry, {tuple_of}, {given}{out})")
    for k in range(count):
        lines.append(f"    d{k} = {params[k]}._data")
    flowing = [k for k, flows in enumerate(entry.flows) if flows]
    for k in flowing:
        lines.append(f"    n{k} = {params[k]}._node")
    if _differs_for_complex(entry):
        lines.append("    if d0.dtype.kind == 'c':")
        lines.append(f"        return @general(@entry, {tuple_of}, {given}{out})")
    if unary_ufunc:
        # A tensor with history is floating; others may need PyTorch's promotion.
        test = "n0 is None and " if flowing else ""
        lines.append(f"    if {test}d0.dtype.kind not in 'fc':")
        lines.append(f"        return @general(@entry, {tuple_of}, {given}{out})")
    arrays = ", ".join(f"d{k}" for k in range(count))
    lines.append("    try:")
    lines.append(f"        od = @run({arrays}{passed})")
    lines.append("    except RuntimeWarning as error:")
    lines.append(f"        od = again(error, @run, {arrays}{passed})")
    meta = _meta_text(entry, unary_ufunc)
    constants = _constants_text(count, flowing)
    _finish_text(entry, lines, flowing, attrs, meta, constants, tuple_of)
    if op.aliases is not None:
        names["link"] = link
        lines.insert(-1, f"    @link(made, {params[0]}, @entry, {given})")
    return compile_function(f"eager_{op.name}", lines, names)


def _differs_for_complex(entry: Entry) -> bool:
    samples = entry.op.samples
    taken = any("complex" in a.dtype for s in samples for a in s.arrays)
    return taken and entry.for_complex() is not entry


def _meta_text(entry: Entry, unary_ufunc: bool) -> str:
    whole = ", ".join(f"d{k}.shape, d{k}.dtype" for k in range(len(entry.op.params)))
    if unary_ufunc and entry.keeps:
        return "None"
    return f"({whole})"


def _constants_text(count: int, flowing: list[int]) -> str:
    """The expression for the constants of a node, see `nodes.constants_of`."""
    if count < 2:
        return "None"
    parts = []
    for k in range(count):
        value = f"(ref(d{k}) if d{k}.ndim else d{k})"
        parts.append(f"{value} if n{k} is None else None" if k in flowing else value)
    return f"({', '.join(parts)},)"


def _constant_of_two(flowing: list[int]) -> str:
    """The same for a binary ufunc, one of whose operands has a history."""
    if flowing != [0, 1]:
        return _constants_text(2, flowing)
    # With two or no histories nothing is kept.
    return (
        "None if (n0 is None) is (n1 is None) else (ref(d1) if d1.ndim else d1) "
        "if n1 is None else (ref(d0) if d0.ndim else d0)"
    )


def _finish_text(
    entry: Entry,
    lines: list[str],
    flowing: list[int],
    attrs: str,
    meta: str,
    constants: str,
    inputs: str,
) -> None:
    """The part from the array `od` on: a tensor, its node if there is history."""
    name = entry.op.name
    lines.append("    if type(od) is not ndarray: od = asarray(od)")
    lines.append("    made = new(Tensor)")
    lines.append("    made._data = od")
    if flowing:
        test = " or ".join(f"n{k} is not None" for k in flowing)
        if entry.elementwise is None:
            test = f"({test}) and od.dtype.kind in 'fc'"
        nodes = "".join(
            f"n{k}, " if k in flowing else "None, " for k in range(len(entry.op.params))
        )
        lines.append(f"    if {test}:")
        lines.append(
            f"        made._node = [@pull, next_seq(), None, ({nodes}), "
            f"{_saved_text(entry)}, {meta}, {attrs}, None, {constants}]"
        )
    given = "{}" if attrs == "None" else attrs
    lines.append(f"    if special: finish(made, @entry, {inputs}, {given})")
    if entry.elementwise is not None:
        lines.append(f"    if out is not None: return write_out(out, made, {name!r})")
    lines.append("    return made")


def _binary(entry: Entry, order: str) -> Callable:
    """`eager` of a binary ufunc; its second operand may be a Python number.

    `order` is that of the operands as the ufunc takes them: `input` is `x`, the other
    is `y`, and the number of an input says where it stands in the op.
    """
    op = entry.op
    swapped = order == "d1, d0"
    x, y = (1, 0) if swapped else (0, 1)
    flowing = [k for k, flows in enumerate(entry.flows) if flows]
    arguments = "(other, input)" if swapped else "(input, other)"
    names = {"entry": entry, "run": entry.run, "pull": entry.pull, "general": general}
    go_general = f"        return @general(@entry, {arguments}, {{}}, out)"
    lines = [
        f"def eager_{op.name}(input, other, *, out=None):",
        f"    d{x} = input._data",
        "    t = type(other)",
        "    if t is Tensor:",
        f"        d{y} = other._data",
        f"        d = d{x}.dtype",
        f"        if d is not d{y}.dtype or (d is not f4 and d is not f8):",
        "    " + go_general,
        f"        n{y} = other._node",
        f"        n{x} = input._node",
        f"        c = {_constant_of_two(flowing)}",
        "        try:",
        "            od = @run(d0, d1)",
        "        except (RuntimeWarning, ValueError) as error:",
        "            od = again(error, @run, d0, d1)",
        "        m = None if d0.shape == d1.shape else "
        "(d0.shape, d0.dtype, d1.shape, d1.dtype)",
        "    elif t is float or t is int:",
        f"        d = d{x}.dtype",
        f"        d{y} = (F4 if d is f4 else F8 if d is f8 else EMPTY).get(other)",
        f"        if d{y} is None:",
        "            if d is not f4 and d is not f8:",
        "        " + go_general,
        f"            d{y} = scalar(other, d)",
        f"        n{y} = None",
        f"        n{x} = input._node",
        "        c = other",
        "        try:",
        "            od = @run(d0, d1)",
        "        except RuntimeWarning as error:",
        "            od = again(error, @run, d0, d1)",
        "        m = None",
        "    else:",
        go_general,
    ]
    if swapped and entry.always:
        lines.append("    t = Tensor")  # also a number as the base of a power
    meta = "m"
    if flowing and not entry.keeps:
        meta = "(d0.shape, d0.dtype, d1.shape, d1.dtype)"
    _finish_text(entry, lines, flowing, "None", meta, "c", arguments)
    return compile_function(f"eager_{op.name}", lines, names)
