"""`custom_vjp`, `custom_jvp`: functions with derivative rules of the user's own."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.graph import Value
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, outline
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ir.types import ArrayType
from tracegrad.ops.call import Body, NoRule, Pullback, Pushforward, closed
from tracegrad.ops.create import zeros_like
from tracegrad.ops.infer import same_shape, shape_text
from tracegrad.runtime.binding import step_text
from tracegrad.runtime.derive import values_of
from tracegrad.runtime.parts import Part, described, recorded, running, traced
from tracegrad.runtime.transform import binder_of
from tracegrad.trace.proxy import make
from tracegrad.trace.tracer import active

# A rule that calls its own function needs a rule for that call, and so on: one for
# each order of derivatives.
_MAX_DEPTH = 3


class _Depth(threading.local):
    """Per thread: how many rules of one function are being traced."""

    value = 0


# -------------------------------------------------------------------------- both kinds
class _Custom:
    """A function with a derivative rule of the user's."""

    def __init__(self, f: Callable, nondiff_argnums: Sequence[int] = ()) -> None:
        self._binder = binder_of(f, self._op)
        self._nondiff = tuple(nondiff_argnums)
        self._depth = _Depth()
        functools.update_wrapper(self, f, updated=())

    _op = "tg.custom_vjp"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function; inside of a trace its rule goes with it."""
        if not active():
            return self._binder.function(*args, **kwargs)
        slots = self._binder.slots(args, kwargs)
        if any(slot.keyword for slot in slots):
            # By keyword only: passed on, without a derivative.
            raise self._error(
                "a function with a rule of its own takes arguments by position",
                "make the keyword-only parameters positional",
            )
        arguments = tuple([slot.argument for slot in slots])
        names = [slot.name for slot in slots]
        if self._depth.value >= _MAX_DEPTH:
            return self._without_rule(arguments, names)
        self._depth.value += 1
        try:
            return self._record(arguments, names)
        finally:
            self._depth.value -= 1

    def _without_rule(self, args: tuple, names: list[str]) -> Any:
        """The function inside of its own rule inside of its own rule, and so on."""
        moved, _ = self._split(args)
        given = tuple([args[i] for i in moved])
        names = [names[i] for i in moved]
        part = traced(self._primal(args, moved), given, {}, names)
        captured, graph = closed(
            self._binder.name, part.params, part.nodes, part.results
        )
        body = Body(self._binder.name, graph, NoRule(), described(self._binder))
        inputs = [*part.given, *captured]
        return recorded(body, inputs, part.result, len(part.results))[0]

    def _record(self, args: tuple, names: list[str]) -> Any:
        raise NotImplementedError

    def _error(self, what: str, fix: str, cls: type = ArgumentError) -> Exception:
        return cls(what, op=self._op, at=self._binder.at, fix=fix)

    def _split(self, args: tuple) -> tuple[list[int], list]:
        """Positions of the differentiable arguments, and the other arguments."""
        count = len(args)
        fixed = sorted({n % count for n in self._nondiff})
        return [i for i in range(count) if i not in fixed], [args[i] for i in fixed]

    def _primal(self, args: tuple, moved: list[int]) -> Callable:
        """The function of its differentiable arguments alone."""
        function = self._binder.function

        def primal(*some: Any) -> Any:
            every = list(args)
            for i, x in zip(moved, some, strict=True):
                every[i] = x
            return function(*every)

        return primal

    def __repr__(self) -> str:
        return f"<{self._op} {self._binder.name}>"


class custom_vjp(_Custom):
    """A function whose reverse mode is a rule of the user's.

    The emitted source calls the function, `fwd` and `bwd` under their own names, and
    carries them as they were traced.

    Args:
        f: the function.
        nondiff_argnums: positions of arguments without a derivative, such as
            functions; `bwd` gets them first.

    Example:
        >>> @custom_vjp
        ... def clip_gradient(x):
        ...     return x
        >>> clip_bwd = lambda saved, ct: (np.clip(ct, -1.0, 1.0),)
        >>> clip_gradient.defvjp(lambda x: (x, None), clip_bwd)
        >>> grad(lambda x: 5.0 * clip_gradient(x))(2.0)
        1.0
    """

    _op = "tg.custom_vjp"

    def __init__(self, f: Callable, nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self._fwd: Callable | None = None
        self._bwd: Callable | None = None

    def defvjp(self, fwd: Callable, bwd: Callable) -> None:
        """Set the rule.

        Args:
            fwd: takes the arguments of the function, returns `(out, residuals)`.
            bwd: takes the residuals and the cotangent of `out`, returns a tuple with
                a cotangent for each argument, `None` for zero.
        """
        for rule, which in ((fwd, "fwd"), (bwd, "bwd")):
            if not callable(rule):
                raise self._error(
                    f"{which} must be a function, not {rule!r:.40}",
                    "pass fwd and bwd, both functions",
                )
        self._fwd, self._bwd = fwd, bwd

    def _record(self, args: tuple, names: list[str]) -> Any:
        if self._fwd is None or self._bwd is None:
            raise self._error(
                f"{self._binder.name} has no rule yet",
                f"call {self._binder.name}.defvjp(fwd, bwd) before it is used",
            )
        moved, fixed = self._split(args)
        given = tuple([args[i] for i in moved])
        names = [names[i] for i in moved]
        primal = traced(self._primal(args, moved), given, {}, names)
        fwd = traced(self._forward(args, moved), given, {}, names)
        value, residual = self._checked_forward(fwd, primal)
        return self._assembled(primal, fwd, value, residual, fixed)

    def _forward(self, args: tuple, moved: list[int]) -> Callable:
        fwd = self._fwd
        assert fwd is not None

        def forward(*some: Any) -> Any:
            every = list(args)
            for i, x in zip(moved, some, strict=True):
                every[i] = x
            return fwd(*every)

        return forward

    def _checked_forward(self, fwd: Part, primal: Part) -> tuple[Tree, Tree]:
        """The two parts of what `fwd` returned.

        Raises:
            ArgumentError: it returned no pair, or another structure than the function.
            ShapeError, DTypeError: a result is of another type.
        """
        pair = fwd.result
        if not isinstance(pair, Branch) or pair.kind != "tuple" or len(pair.keys) != 2:
            raise self._error(
                f"fwd of {self._binder.name} returned {outline(pair)}, not a pair",
                "return out, residuals",
            )
        value, residual = pair.children
        if outline(value) != outline(primal.result):
            raise self._error(
                f"fwd of {self._binder.name} returned {outline(value)}, the function "
                f"itself {outline(primal.result)}",
                "return what the function returns, and the residuals",
            )
        for a, b in zip(values_of([value]), primal.results, strict=True):
            self._check_type("fwd", "a result", a.type, b.type, " result")
        return value, residual

    def _check_type(
        self, which: str, what: str, have: ArrayType, want: ArrayType, of: str
    ) -> None:
        if not same_shape(have.shape, want.shape):
            raise self._error(
                f"{which} of {self._binder.name} returned {what} of shape "
                f"{shape_text(have.shape)} for a{of} of shape {shape_text(want.shape)}",
                "return an array of that shape",
                ShapeError,
            )
        if have.kind == "c" and want.kind != "c":
            raise self._error(
                f"{which} of {self._binder.name} returned {what} of type {have!r} for "
                f"a{of} of type {want!r}",
                "return its real part",
                DTypeError,
            )

    def _assembled(
        self, primal: Part, fwd: Part, value: Tree, residual: Tree, fixed: list
    ) -> Any:
        """Trace the pullback, and record the call with its rule."""
        session = running()
        outs, kept = values_of([value]), values_of([residual])
        bwd_of, structure = self._backward(value, residual, outs, kept, fixed)
        bwd = traced(bwd_of, (), {})
        cotangents, wrt = self._cotangents(bwd, fwd)
        fresh = structure()
        extra, back = closed(_name(self._bwd), fresh, bwd.nodes, cotangents)
        captured, forward = closed(
            _name(self._fwd), fwd.params, fwd.nodes, [*outs, *kept]
        )
        alone, plain = closed(
            self._binder.name, primal.params, primal.nodes, primal.results
        )
        # One node reads what the three bodies read.
        inputs = [*fwd.given, *captured, *alone, *extra]
        spare = lambda vs: [Value(v.type, v.hint) for v in vs]
        forward.params += [*spare(alone), *spare(extra)]
        first = plain.params[: len(primal.params)]
        plain.params = [
            *first,
            *spare(captured),
            *plain.params[len(primal.params) :],
            *spare(extra),
        ]
        start = len(inputs) - len(extra)
        rule = Pullback(
            len(outs),
            Body(self._binder.name, plain, None, described(self._binder)),
            Body(_name(self._bwd), back, None, f"Pullback of `{self._binder.name}`."),
            tuple(wrt),
            len(fwd.given),
            tuple(range(start, len(inputs))),
        )
        text = f"`{self._binder.name}`, and what its pullback reads."
        body = Body(_name(self._fwd), forward, rule, text)
        session.locate()
        made, _ = recorded(body, inputs, value, len(outs))
        return made

    def _backward(
        self, value: Tree, residual: Tree, outs: list, kept: list, fixed: list
    ) -> tuple[Callable, Callable]:
        """`bwd` on fresh values, and those values in order."""
        session = running()
        residuals = [Value(v.type.strong, v.hint) for v in kept]
        cts = {
            k: Value(v.type.strong, f"d_{v.hint or 'out'}")
            for k, v in enumerate(outs)
            if v.type.differentiable
        }
        bwd = self._bwd
        assert bwd is not None

        def backward() -> Any:
            rest = iter(residuals)
            position = iter(range(len(outs)))

            def ct_of(v: Value) -> Any:
                k = next(position)
                if k in cts:
                    return make(cts[k], session)
                return make(zeros_like(session.builder.wrap(v)).value, session)

            saved = restore_tree(residual, lambda _: make(next(rest), session))
            return bwd(*fixed, saved, restore_tree(value, ct_of))

        return backward, lambda: [*residuals, *cts.values()]

    def _cotangents(self, bwd: Part, fwd: Part) -> tuple[list[Value], list[int]]:
        """What `bwd` returned for each leaf of the arguments, and their positions.

        Raises:
            ArgumentError: it returned another number, or another structure.
            ShapeError, DTypeError: a cotangent has another type than its argument.
        """
        given = bwd.result
        count = len(fwd.trees)
        if (
            not isinstance(given, Branch)
            or given.kind not in ("tuple", "list")
            or len(given.children) != count
        ):
            raise self._error(
                f"bwd of {self._binder.name} returned {outline(given)} for {count} "
                "arguments",
                "return a tuple with a cotangent for each argument, None for zero",
            )
        found: list[tuple[Value, Value]] = []
        for i, (part, tree) in enumerate(zip(given.children, fwd.trees, strict=True)):
            self._pair(part, tree, f"[{i}]", found)
        position = {v: i for i, v in enumerate(fwd.params)}
        return [ct for ct, _ in found], [position[v] for _, v in found]

    def _pair(self, ct: Tree, tree: Tree, where: str, found: list) -> None:
        if isinstance(ct, Static):
            if ct.value is None or isinstance(tree, Static):
                return
        elif isinstance(ct, Leaf) and isinstance(tree, Leaf):
            v = tree.value
            if v.type.differentiable:
                what = f"a cotangent {where}"
                self._check_type("bwd", what, ct.value.type, v.type, "n argument")
                found.append((ct.value, v))
            return
        elif isinstance(ct, Branch) and isinstance(tree, Branch):
            if ct.keys == tree.keys:
                parts = zip(ct.children, tree.children, tree.keys, strict=True)
                for a, b, key in parts:
                    self._pair(a, b, where + step_text(tree.kind, key), found)
                return
        raise self._error(
            f"bwd of {self._binder.name} returned {outline(ct)} at {where}, where the "
            f"argument is {outline(tree)}",
            "return a cotangent in the structure of its argument",
        )


class custom_jvp(_Custom):
    """A function whose forward mode is a rule of the user's; reverse mode follows.

    Args:
        f: the function.
        nondiff_argnums: positions of arguments without a derivative; the rule gets
            them first.

    Example:
        >>> @custom_jvp
        ... def f(x):
        ...     return np.sin(x)
        >>> f.defjvp(lambda x, t: (np.sin(x[0]), 2.0 * np.cos(x[0]) * t[0]))
        >>> grad(f)(0.0)
        2.0
    """

    _op = "tg.custom_jvp"

    def __init__(self, f: Callable, nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self._rule: Callable | None = None

    def defjvp(self, rule: Callable) -> Callable:
        """Set the rule: `(primals, tangents) -> (out, out_tangent)`.

        It is linear in the tangents.  As a decorator it gives the rule back.
        """
        if not callable(rule):
            raise self._error(
                f"the rule must be a function, not {rule!r:.40}", "pass a function"
            )
        self._rule = rule
        return rule

    def defjvps(self, *rules: Callable | None) -> None:
        """Set a rule for each argument: `(t, out, *primals) -> out_tangent`.

        `None` for an argument stands for a tangent of zero.
        """

        def rule(primals: tuple, tangents: tuple) -> tuple:
            if len(rules) != len(primals):
                raise self._error(
                    f"{self._binder.name} has {len(rules)} rules for {len(primals)} "
                    "arguments",
                    "give defjvps a rule for each argument, None for zero",
                )
            out = self(*primals)
            parts = [
                r(t, out, *primals)
                for r, t in zip(rules, tangents, strict=True)
                if r is not None
            ]
            total = functools.reduce(lambda a, b: a + b, parts)
            return out, total

        self._rule = rule

    def _record(self, args: tuple, names: list[str]) -> Any:
        if self._rule is None:
            raise self._error(
                f"{self._binder.name} has no rule yet",
                f"call {self._binder.name}.defjvp(rule) before it is used",
            )
        moved, fixed = self._split(args)
        given = tuple([args[i] for i in moved])
        names = [names[i] for i in moved]
        primal = traced(self._primal(args, moved), given, {}, names)
        captured, graph = closed(
            self._binder.name, primal.params, primal.nodes, primal.results
        )
        wrt = [i for i, v in enumerate(primal.params) if v.type.differentiable]
        jvp, tangents = self._traced_rule(primal, fixed, given, names)
        results = self._checked(jvp, primal)
        extra, pushed = closed(
            _name(self._rule), [*jvp.params, *tangents], jvp.nodes, results
        )
        spare = lambda vs: [Value(v.type, v.hint) for v in vs]
        count = len(jvp.params)
        own = pushed.params[count + len(tangents) :]
        pushed.params = [
            *pushed.params[:count],
            *spare(captured),
            *own,
            *pushed.params[count : count + len(tangents)],
        ]
        graph.params += spare(extra)
        text = f"`{self._binder.name}` and its tangent."
        pushed_body = Body(_name(self._rule), pushed, None, text)
        rule = Pushforward(pushed_body, tuple(wrt), len(primal.given))
        body = Body(self._binder.name, graph, rule, described(self._binder))
        inputs = [*primal.given, *captured, *extra]
        made, _ = recorded(body, inputs, primal.result, len(primal.results))
        return made

    def _traced_rule(
        self, primal: Part, fixed: list, given: tuple, names: list[str]
    ) -> tuple[Part, list[Value]]:
        """The rule on the arguments and on fresh tangents."""
        session = running()
        rule = self._rule
        assert rule is not None
        tangents: list[Value] = []

        def tangent_of(v: Value) -> Any:
            if not v.type.differentiable:
                return make(zeros_like(session.builder.wrap(v)).value, session)
            t = Value(v.type.strong, f"t_{v.hint}" if v.hint else None)
            tangents.append(t)
            return make(t, session)

        def push(*primals: Any) -> Any:
            moved = tuple([restore_tree(t, tangent_of) for t in primal.trees])
            return rule(*fixed, primals, moved)

        return traced(push, given, {}, names), tangents

    def _checked(self, jvp: Part, primal: Part) -> list[Value]:
        """The results and their tangents.

        Raises:
            ArgumentError: the rule returned no pair of the right structures.
            ShapeError: a tangent has another shape than its result.
        """
        pair = jvp.result
        name = self._binder.name
        if not isinstance(pair, Branch) or pair.kind != "tuple" or len(pair.keys) != 2:
            raise self._error(
                f"the rule of {name} returned {outline(pair)}, not a pair",
                "return out, out_tangent",
            )
        for part, what in zip(pair.children, ("a result", "a tangent"), strict=True):
            if outline(part) != outline(primal.result):
                raise self._error(
                    f"the rule of {name} returned {what} {outline(part)}, the "
                    f"function itself {outline(primal.result)}",
                    "return both in the structure of the function's result",
                )
            for a, b in zip(values_of([part]), primal.results, strict=True):
                if not same_shape(a.type.shape, b.type.shape):
                    raise self._error(
                        f"the rule of {name} returned {what} of shape "
                        f"{shape_text(a.type.shape)} for a result of shape "
                        f"{shape_text(b.type.shape)}",
                        "return an array of that shape",
                        ShapeError,
                    )
        outs, tangents = (values_of([c]) for c in pair.children)
        moved = [t for t, v in zip(tangents, primal.results) if v.type.differentiable]
        return [*outs, *moved]


def _name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "rule"
