"""What Python makes of a traced value: plain data, a text, or an error."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np

from tracegrad.errors import ConversionError
from tracegrad.ir.location import Location
from tracegrad.ops.define import METHODS
from tracegrad.ops.record import Ref
from tracegrad.trace.boundary import session_of
from tracegrad.trace.buffers import DEPTH, Handle, current
from tracegrad.trace.deciding import only_said
from tracegrad.trace.identity import is_python_truth
from tracegrad.trace.session import ACTIVE, Session


def place_of(x: Handle) -> Location | None:
    """The user's line, if the trace of `x` runs."""
    session: Session = x.builder.session  # type: ignore[attr-defined]
    return session.place() if ACTIVE.session is session else None


def data_of(x: Handle, wanted: str = "a number") -> Any:
    """The data of a proxy that depends on constants only.

    Raises:
        ConversionError: if it is traced.
    """
    session = session_of(x)
    value = current(x)
    if session.is_concrete(value):
        return session.ask(value)
    raise conversion(x, wanted)


# What Python or NumPy calls for a conversion -> how users know it.
_CONVERSIONS = {
    "a Python float": "float()",
    "a Python int": "int()",
    "a Python complex": "complex()",
    "a pickle": "pickle.dumps()",
    "a key": "hash()",
}


# A call of one of NumPy's types of scalars, which are classes: no protocol sees it.
_SCALAR_CALL = re.compile(r"\b(?:np|numpy)\.(\w+)\(")


def _scalar_type(at: Location | None) -> str | None:
    """`np.float64`, if the place is a call of that."""
    if at is None:
        return None
    line = linecache.getline(at.filename, at.line).encode()
    end = at.end_column if at.end_line == at.line else len(line)
    found = _SCALAR_CALL.match(line[max(at.column, 0) : end].decode(errors="replace"))
    kind = getattr(np, found[1], None) if found else None
    is_scalar = isinstance(kind, type) and issubclass(kind, np.generic)
    return found[0][:-1] if found and is_scalar else None


def conversion(x: Handle, wanted: str) -> ConversionError:
    """The error for a traced value that would become something plain."""
    at = place_of(x)
    scalar = _scalar_type(at)
    if scalar is not None:
        return ConversionError(
            f"{scalar} of a traced value ({x.value.type!r}) would be a constant from "
            "then on",
            op=scalar,
            at=at,
            fix=f"write x.astype({scalar}), which is traced",
        )
    return ConversionError(
        f"a traced value ({x.value.type!r}) would become {wanted}, and be a constant "
        "from then on",
        op=_CONVERSIONS.get(wanted, "np.asarray()"),
        at=at,
        fix="keep it an array of the traced function, and store it only in arrays made "
        "there by np.zeros, np.array and the like",
    )


# ------------------------------------------------------------------------------- texts
def name_of(x: Handle) -> str:
    """How a traced value is called where its data is not known."""
    name = f"{x.value.hint}: " if x.value.hint else ""
    return f"<traced {name}{x.value.type!r}>"


def in_text(x: Handle) -> Any:
    """The integer that a text is made of, guarded; None for any other value.

    For `"layer" + str(n)` is a key.
    """
    session: Session = x.builder.session  # type: ignore[attr-defined]
    if ACTIVE.session is not session or session.values is None or DEPTH.bodies:
        return None
    t = x.value.type
    value = current(x)
    if t.shape or t.kind not in "iub" or session.is_concrete(value):
        return None
    number = session.demand.settled(value, conversion(x, "a text"))
    if t.weak or (t.kind == "b" and is_python_truth(x)):
        return number
    return t.dtype.type(number)


_LONG = 100  # elements of an array whose text is asked for


def _kept(x: Handle, session: Session) -> Any:
    """The data of which a text is made that may be a key, guarded by `==`.

    None for a text that is only said, and in a body, which has no values.
    """
    place = session.place()
    known = session.values is not None and not DEPTH.bodies
    if not known or place is None or only_said(place):
        return None
    t, value = x.value.type, current(x)
    if not t.shape:
        number = session.demand.settled(value, conversion(x, "a text"))
        return number if t.weak else t.dtype.type(number)
    data = session.demand.value(value)
    if np.size(data) > _LONG:
        return None
    ref = Ref(value, session.builder)
    same, unknown = ref == data, data != data
    if np.any(unknown):
        same = same | (unknown & (ref != ref))
    session.demand.decide(METHODS["all"](same).value, bool)
    return data


def shown_of(x: Handle) -> Any:
    """What to print of a proxy: its value in the call, if there is one."""
    session: Session = x.builder.session  # type: ignore[attr-defined]
    if ACTIVE.session is not session:
        return name_of(x)
    if session.is_concrete(current(x)):
        return data_of(x)
    number = in_text(x)
    if number is None:
        number = _kept(x, session)
    if number is not None:
        return number
    return session.demand.shown(current(x), name_of(x))
