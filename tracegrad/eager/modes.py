"""Gradient modes: context managers, decorators and functions, per thread.

Generated functions read one global, `special`: the number of threads in which anything
is not as by default.  Only if it is not 0 do they call `finish`, which looks at the
thread's own state.  Reading a thread-local in every op would cost ten times as much.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

# The globals of all generated functions.  Its name is that of the module in which
# NumPy's warnings about them appear, so that one filter silences them.
NAMESPACE: dict[str, Any] = {"__name__": "tracegrad.eager.generated", "special": 0}


class State(threading.local):
    """What is in force in this thread.

    Attributes:
        grad: whether operations are recorded.
        inference: whether results are inference tensors.
        hooks: (pack, unpack) pairs of `saved_tensors_hooks`, innermost last.
        push: what gives results their tangents, see `dual`; None outside of a level.
        tangents: in a level, id of an array -> the array and what its tensor has as
            `_tangent`, for what nodes have saved.
        run: the backward pass that this thread is in.
        rules: whether a rule is being recorded: then Python floats count as float64
            beside integers, as rules are written for NumPy.  A node that runs a user's
            backward function sets it to False meanwhile.
        counted: whether this thread counts in `special`.
    """

    grad = True
    inference = False
    hooks: tuple = ()
    push: Callable | None = None
    tangents: dict[int, tuple] = {}
    run: Any = None
    rules = False
    counted = False


state = State()
_lock = threading.Lock()


class _Anomaly:
    """Anomaly detection, for all threads."""

    on = False
    check_nan = True


anomaly = _Anomaly()


def _count(change: int) -> None:
    with _lock:
        NAMESPACE["special"] += change


def changed() -> None:
    """Note that the thread's state was set."""
    plain = state.grad and not state.inference and not state.hooks
    special = not plain or state.push is not None
    if special != state.counted:
        state.counted = special
        _count(1 if special else -1)


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return state.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return state.inference


class _Mode:
    """A context manager that is a decorator too, and may be entered again."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and not kwargs and inspect.isfunction(args[0]):
            return cls()(args[0])  # `@no_grad` without brackets
        return object.__new__(cls)

    def __init__(self) -> None:
        self._before: list[tuple] = []

    def _set(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._before.append((state.grad, state.inference, state.hooks))
        self._set()
        changed()
        return None

    def __exit__(self, *exc: object) -> None:
        state.grad, state.inference, state.hooks = self._before.pop()
        changed()

    def clone(self) -> _Mode:
        """The mode to enter for one call of a decorated function."""
        return self.__class__()

    def __call__(self, function: Callable) -> Callable:
        """Run `function` in this mode."""
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return run

    def _wrap_generator(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            # The mode holds inside the generator only, not in the loop around it.
            generator = function(*args, **kwargs)
            sent: Any = None
            while True:
                try:
                    with self.clone():
                        item = generator.send(sent)
                except StopIteration as stop:
                    return stop.value
                sent = yield item

        return run


class no_grad(_Mode):
    """Nothing is recorded inside."""

    def _set(self) -> None:
        state.grad = False


class enable_grad(_Mode):
    """Operations are recorded inside, also within `no_grad`."""

    def _set(self) -> None:
        state.grad = True


class set_grad_enabled(_Mode):
    """Set at once whether to record; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._prev = (state.grad, state.inference, state.hooks)
        state.grad = self.mode
        changed()

    def __enter__(self) -> None:
        self._before.append(self._prev)
        state.grad = self.mode
        changed()

    def __call__(self, function: Callable) -> Callable:
        state.grad = self._prev[0]
        changed()
        return super().__call__(function)

    def clone(self) -> _Mode:
        return self.__class__(self.mode)


class inference_mode(_Mode):
    """Nothing is recorded inside, and results can never take part in recording."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = bool(mode)

    def _set(self) -> None:
        if self.mode:
            state.grad, state.inference = False, True
        elif state.inference:
            state.grad, state.inference = True, False

    def clone(self) -> _Mode:
        return self.__class__(self.mode)


class set_detect_anomaly:
    """Whether backward names the forward line of an op that makes a NaN."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (anomaly.on, anomaly.check_nan)
        _set_anomaly(bool(mode), check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        _set_anomaly(*self._before)


class detect_anomaly(set_detect_anomaly):
    """The context manager of anomaly detection."""

    def __init__(self, check_nan: bool = True) -> None:
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime "
            "and should only be enabled for debugging.",
            stacklevel=2,
        )
        self._before = (anomaly.on, anomaly.check_nan)
        self._wanted = check_nan

    def __enter__(self) -> None:
        self._before = (anomaly.on, anomaly.check_nan)
        _set_anomaly(True, self._wanted)


def _set_anomaly(mode: bool, check_nan: bool = True) -> None:
    """Whether anomaly detection is on, and looks for NaN."""
    if mode != anomaly.on:
        _count(1 if mode else -1)
    anomaly.on, anomaly.check_nan = mode, check_nan


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return anomaly.on


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN."""
    return anomaly.check_nan
