"""Fourier transforms.

A transform is linear, and its matrix is symmetric: the pullback of `fft` is `fft`, that
of `ifft` is `ifft`, without conjugates in the complex convention that is used here.
Axes are counted from the last one (`axis=-1`), as these functions have it by default.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.dims import compare
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType, Dim, Shape, Size
from tracegrad.ops.decompositions import at_least
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.infer import like_first, normal_axes, normal_axis, refuse
from tracegrad.ops.rearrange import pad
from tracegrad.ops.record import as_array, as_operand, is_traced, ndim_of, shape_of
from tracegrad.ops.sample import Sample, arg
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.select import conj, real

# What undoes the scaling of a transform, for the transform back.
_FLIPPED = {None: "forward", "forward": None, "ortho": "ortho"}


# ------------------------------------------------------------------- what they share
def _complex(t: ArrayType) -> np.dtype:
    """The dtype of a transform."""
    if t.kind == "c":
        return t.dtype
    single = t.kind == "f" and t.dtype.itemsize <= 4
    return np.dtype(np.complex64 if single else np.complex128)


def _real(t: ArrayType) -> np.dtype:
    """The dtype of a transform to real numbers."""
    if t.kind in "biu":
        return np.dtype(np.float64)
    return np.dtype(t.dtype.char.lower())


def _check_real(t: ArrayType) -> None:
    if t.kind == "c":
        raise DTypeError(
            f"a transform of real numbers does not take {t.dtype}",
            fix="use fft, ifft or fftn, or the real part of the array",
        )


def _resized(t: ArrayType, axes: tuple[int, ...], s: Any) -> list[Size]:
    """The shape with the sizes `s`, if given, along `axes`."""
    sizes = list(t.shape)
    if s is not None:
        for axis, size in zip(axes, s, strict=True):
            sizes[axis] = size
    return sizes


def _equal(a: Size, b: Size) -> bool:
    return compare(a, b) is True


def fitted(ct: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The pullback of cutting or padding `x` along `axes` to the shape of `ct`."""
    widths: list[Any] = [(0, 0)] * ndim_of(x)
    index = [FULL] * ndim_of(x)
    for axis in axes:
        have, want = shape_of(ct)[axis], shape_of(x)[axis]
        if _equal(have, want):
            continue
        if at_least(have, want):
            index[axis] = Slice(None, want)
        else:
            widths[axis] = (0, want - have)
    if any(e != FULL for e in index):
        ct = getitem(ct, index=_short(index))
    if any(w != (0, 0) for w in widths):
        ct = pad(ct, pad_width=tuple(widths))
    return ct


def _short(index: list) -> tuple:
    """The subscript without whole axes at its end."""
    while index and index[-1] == FULL:
        index = index[:-1]
    return tuple(index)


def _doubled_inside(ct: Any, axis: int, size: Size) -> Any:
    """What stands for two frequencies, a positive and a negative one, twice."""
    inside = [FULL] * ndim_of(ct)
    inside[axis] = Slice(1, (size + 1) // 2)
    if type(size) is int and size < 3:
        return ct
    index = _short(inside)
    return scatter_add(ct, getitem(ct, index=index), index=index, unique=True)


# ----------------------------------------------------------------------- along one axis
def _infer_fft(t: ArrayType, *, n, axis, norm) -> ArrayType:
    return ArrayType(
        tuple(_resized(t, (axis,), None if n is None else (n,))), _complex(t)
    )


_LINES = (
    arg("n").with_(),
    arg(2, "n").with_(),
    arg(4, 3).with_(axis=-2, norm="ortho"),
    arg(5).with_(n=3, norm="forward"),
    arg(5).with_(n=8),
    arg(1).with_(),
    arg(2, 3).with_(n=1),
)
_COMPLEX = (
    arg("n", dtype="complex128").with_(),
    arg(4, 2, dtype="complex128").with_(n=3, axis=-2, norm="ortho"),
    arg(3, dtype="complex128").with_(n=6),
)
_WHOLE = (arg(4, dtype="int64").with_(), arg(3, dtype="float16").with_().rough())


def _slope_of_fft(ct, y, x, *, n, axis, norm):
    return fitted(fft(ct, axis=axis, norm=norm), x, (axis,))


@op(
    infer=_infer_fft,
    vjp=[_slope_of_fft],
    linear=True,
    batch=Batch.MATRIX,
    spelling="np.fft.fft",
    samples=[*_LINES, *_COMPLEX, *_WHOLE],
)
def fft(x, *, n=None, axis=-1, norm=None):
    """Fourier transform along `axis`, of `x` cut or padded with zeros to `n`."""
    return xp.fft.fft(x, n=n, axis=axis, norm=norm)


def _slope_of_ifft(ct, y, x, *, n, axis, norm):
    return fitted(ifft(ct, axis=axis, norm=norm), x, (axis,))


@op(
    infer=_infer_fft,
    vjp=[_slope_of_ifft],
    linear=True,
    batch=Batch.MATRIX,
    spelling="np.fft.ifft",
    samples=[*_LINES, *_COMPLEX],
)
def ifft(x, *, n=None, axis=-1, norm=None):
    """Inverse Fourier transform along `axis`."""
    return xp.fft.ifft(x, n=n, axis=axis, norm=norm)


def _infer_rfft(t: ArrayType, *, n, axis, norm) -> ArrayType:
    _check_real(t)
    sizes = _resized(t, (axis,), None if n is None else (n,))
    sizes[axis] = sizes[axis] // 2 + 1
    return ArrayType(tuple(sizes), _complex(t))


def _slope_of_rfft(ct, y, x, *, n, axis, norm):
    n = shape_of(x)[axis] if n is None else n
    # The frequencies that are left out count as if they had the cotangent 0.
    return fitted(real(fft(ct, n=n, axis=axis, norm=norm)), x, (axis,))


@op(
    infer=_infer_rfft,
    vjp=[_slope_of_rfft],
    linear=True,
    batch=Batch.MATRIX,
    spelling="np.fft.rfft",
    samples=[*_LINES, _WHOLE[0]],
)
def rfft(x, *, n=None, axis=-1, norm=None):
    """Fourier transform of real numbers: the frequencies that are not negative."""
    return xp.fft.rfft(x, n=n, axis=axis, norm=norm)


def _infer_irfft(t: ArrayType, *, n, axis, norm) -> ArrayType:
    n = 2 * (t.shape[axis] - 1) if n is None else n
    return ArrayType(tuple(_resized(t, (axis,), (n,))), _real(t))


def _slope_of_irfft(ct, y, x, *, n, axis, norm):
    back = conj(rfft(ct, axis=axis, norm=_FLIPPED[norm]))
    back = _doubled_inside(back, axis, shape_of(ct)[axis])
    return fitted(back, x, (axis,))


@op(
    infer=_infer_irfft,
    vjp=[_slope_of_irfft],
    linear=True,
    batch=Batch.MATRIX,
    spelling="np.fft.irfft",
    samples=[
        arg("n", dtype="complex128").with_(),
        arg(3, 2, dtype="complex128").with_(n=5, axis=-2, norm="ortho"),
        arg(3, dtype="complex128").with_(n=3, norm="forward"),
        arg(3, dtype="complex128").with_(n=8),
        arg(2, 3, dtype="complex128").with_(n=1),
        arg(2, dtype="complex128").with_(),
        arg(4).with_(),
        arg(4, dtype="int64").with_(),
    ],
)
def irfft(x, *, n=None, axis=-1, norm=None):
    """Real numbers of the frequencies that are not negative; `n` of them."""
    return xp.fft.irfft(x, n=n, axis=axis, norm=norm)


# ------------------------------------------------------------------- along several axes
def _infer_fftn(t: ArrayType, *, s, axes, norm) -> ArrayType:
    return ArrayType(tuple(_resized(t, axes, s)), _complex(t))


_PLANES = (
    arg("n", 3).with_(axes=(-2, -1)),
    arg(2, 3, 2).with_(axes=(-3, -2, -1), norm="ortho"),
    arg(2, 3, 2).with_(axes=(-3, -1), norm="forward"),
    arg(3, 4).with_(s=(5, 2), axes=(-2, -1)),
    arg(3, 4).with_(s=(2, 5), axes=(-1, -2)),
    arg(3, 4).with_(axes=(-2,)),
)
_COMPLEX_PLANE = arg(3, 2, dtype="complex128").with_(axes=(-2, -1))


def _slope_of_fftn(ct, y, x, *, s, axes, norm):
    return fitted(fftn(ct, axes=axes, norm=norm), x, axes)


@op(
    infer=_infer_fftn,
    vjp=[_slope_of_fftn],
    linear=True,
    batch=Batch.MATRIX,
    noun="fft",
    spelling="np.fft.fftn",
    samples=[*_PLANES, _COMPLEX_PLANE],
)
def fftn(x, *, s=None, axes, norm=None):
    """Fourier transform along several axes."""
    if axes == (-2, -1):
        return xp.fft.fft2(x, s=s, norm=norm)
    return xp.fft.fftn(x, s=s, axes=axes, norm=norm)


def _slope_of_ifftn(ct, y, x, *, s, axes, norm):
    return fitted(ifftn(ct, axes=axes, norm=norm), x, axes)


@op(
    infer=_infer_fftn,
    vjp=[_slope_of_ifftn],
    linear=True,
    batch=Batch.MATRIX,
    noun="ifft",
    spelling="np.fft.ifftn",
    samples=[*_PLANES, _COMPLEX_PLANE],
)
def ifftn(x, *, s=None, axes, norm=None):
    """Inverse Fourier transform along several axes."""
    if axes == (-2, -1):
        return xp.fft.ifft2(x, s=s, norm=norm)
    return xp.fft.ifftn(x, s=s, axes=axes, norm=norm)


def _infer_rfftn(t: ArrayType, *, s, axes, norm) -> ArrayType:
    _check_real(t)
    sizes = _resized(t, axes, s)
    sizes[axes[-1]] = sizes[axes[-1]] // 2 + 1
    return ArrayType(tuple(sizes), _complex(t))


def _slope_of_rfftn(ct, y, x, *, s, axes, norm):
    s = tuple([shape_of(x)[a] for a in axes]) if s is None else s
    return fitted(real(fftn(ct, s=s, axes=axes, norm=norm)), x, axes)


@op(
    infer=_infer_rfftn,
    vjp=[_slope_of_rfftn],
    linear=True,
    batch=Batch.MATRIX,
    noun="rfft",
    spelling="np.fft.rfftn",
    samples=_PLANES,
)
def rfftn(x, *, s=None, axes, norm=None):
    """Fourier transform of real numbers along several axes, the last one halved."""
    if axes == (-2, -1):
        return xp.fft.rfft2(x, s=s, norm=norm)
    return xp.fft.rfftn(x, s=s, axes=axes, norm=norm)


def _infer_irfftn(t: ArrayType, *, s, axes, norm) -> ArrayType:
    sizes = _resized(t, axes, s)
    if s is None:
        sizes[axes[-1]] = 2 * (sizes[axes[-1]] - 1)
    return ArrayType(tuple(sizes), _real(t))


def _slope_of_irfftn(ct, y, x, *, s, axes, norm):
    back = conj(rfftn(ct, axes=axes, norm=_FLIPPED[norm]))
    back = _doubled_inside(back, axes[-1], shape_of(ct)[axes[-1]])
    return fitted(back, x, axes)


@op(
    infer=_infer_irfftn,
    vjp=[_slope_of_irfftn],
    linear=True,
    batch=Batch.MATRIX,
    noun="irfft",
    spelling="np.fft.irfftn",
    samples=[
        arg("n", 3, dtype="complex128").with_(axes=(-2, -1)),
        arg(2, 3, 2, dtype="complex128").with_(axes=(-2, -3), norm="ortho"),
        arg(3, 4, dtype="complex128").with_(s=(2, 5), axes=(-2, -1)),
        arg(3, 4, dtype="complex128").with_(s=(4, 7), axes=(-1, -2), norm="forward"),
        arg(3, 4).with_(axes=(-2, -1)),
    ],
)
def irfftn(x, *, s=None, axes, norm=None):
    """Real numbers of a transform along several axes, of which the last is halved."""
    if axes == (-2, -1):
        return xp.fft.irfft2(x, s=s, norm=norm)
    return xp.fft.irfftn(x, s=s, axes=axes, norm=norm)


# ------------------------------------------------------------------- as users call them
def _size(n: Any, function: str) -> Size:
    """A size of a transform.

    Raises:
        ArgumentError: if it is not positive.
    """
    size = n if isinstance(n, Dim) else operator.index(n)
    if type(size) is int and size < 1:
        raise ArgumentError(
            f"the size of a transform must be positive, not {size}",
            op=function,
            fix="leave out the size, or give a positive one",
        )
    return size


def _norm(norm: Any, function: str) -> str | None:
    if norm in (None, "backward"):
        return None
    if norm in ("ortho", "forward"):
        return norm
    raise ArgumentError(
        f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}", op=function
    )


def _one_axis(which: Any, name: str, n: Any, axis: Any, norm: Any, x: Any) -> Any:
    x = as_array(x)
    rank = ndim_of(x)
    if not rank:
        raise ShapeError(f"{name} needs an array with an axis, not a number", op=name)
    axis = normal_axis(axis, rank) - rank
    have = shape_of(x)[axis]
    if which is irfft:
        have = 2 * (have - 1)
    if n is not None:
        n = _size(n, name)
        n = None if _equal(n, have) else n
    if n is None:
        _size(have, name)
    return which(x, n=n, axis=axis, norm=_norm(norm, name))


def _several_axes(which: Any, name: str, s: Any, axes: Any, norm: Any, x: Any) -> Any:
    x = as_array(x)
    rank = ndim_of(x)
    sizes = None if s is None else tuple(s)
    if axes is None:
        count = rank if sizes is None else len(sizes)
        axes = tuple(range(-count, 0))
    axes = tuple([a - rank for a in normal_axes(tuple(axes), rank)])
    if not axes or (sizes is not None and len(sizes) != len(axes)):
        raise ShapeError(
            f"{name} got {len(sizes or ())} sizes for {len(axes)} axes",
            op=name,
            fix="give one size for each axis",
        )
    have = [shape_of(x)[a] for a in axes]
    usual = list(have)
    if which is irfftn:
        usual[-1] = 2 * (usual[-1] - 1)
    if sizes is not None:
        # -1 stands for the whole axis.
        sizes = tuple(
            [
                h if type(n) is int and n == -1 else _size(n, name)
                for n, h in zip(sizes, have, strict=True)
            ]
        )
        if all(map(_equal, sizes, usual)):
            sizes = None
    for size in usual if sizes is None else ():
        _size(size, name)
    return which(x, s=sizes, axes=axes, norm=_norm(norm, name))


def _accept_one(which: Any) -> None:
    """The spellings of a transform along one axis, of NumPy and of SciPy."""
    name = f"np.fft.{which.name}"

    @accept(getattr(np.fft, which.name))
    def _(a, n=None, axis=-1, norm=None, out=None):
        refuse(name, out=out)
        return _one_axis(which, name, n, axis, norm, a)

    @accept(f"scipy.fft:{which.name}")
    def _(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        return _one_axis(which, f"scipy.fft.{which.name}", n, axis, norm, x)


def _accept_several(which: Any, name: str, default: tuple[int, int] | None) -> None:
    """The spellings of a transform along several axes, of NumPy and of SciPy."""

    @accept(getattr(np.fft, name))
    def _(a, s=None, axes=default, norm=None, out=None):
        refuse(f"np.fft.{name}", out=out)
        return _several_axes(which, f"np.fft.{name}", s, axes, norm, a)

    @accept(f"scipy.fft:{name}")
    def _(
        x,
        s=None,
        axes=default,
        norm=None,
        overwrite_x=False,
        workers=None,
        *,
        plan=None,
    ):
        return _several_axes(which, f"scipy.fft.{name}", s, axes, norm, x)


for _op in (fft, ifft, rfft, irfft):
    _accept_one(_op)
for _op in (fftn, ifftn, rfftn, irfftn):
    _accept_several(_op, _op.name, None)
    _accept_several(_op, f"{_op.name[:-1]}2", (-2, -1))


def _accept_hermitian(name: str, call: Any) -> None:
    """The spellings of a transform of a real spectrum, of NumPy and of SciPy."""

    @accept(getattr(np.fft, name))
    def _(a, n=None, axis=-1, norm=None, out=None):
        refuse(f"np.fft.{name}", out=out)
        return call(f"np.fft.{name}", a, n, axis, norm)

    @accept(f"scipy.fft:{name}")
    def _(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        return call(f"scipy.fft.{name}", x, n, axis, norm)


def _hfft(name: str, x: Any, n: Any, axis: Any, norm: Any) -> Any:
    return _one_axis(
        irfft, name, n, axis, _FLIPPED[_norm(norm, name)], conj(as_array(x))
    )


def _ihfft(name: str, x: Any, n: Any, axis: Any, norm: Any) -> Any:
    return conj(_one_axis(rfft, name, n, axis, _FLIPPED[_norm(norm, name)], x))


_accept_hermitian("hfft", _hfft)
_accept_hermitian("ihfft", _ihfft)


# -------------------------------------------------------------------------- frequencies
_SHIFTS = (
    arg("n").with_(axes=(-1,)),
    arg(5).with_(axes=(-1,)),
    arg(3, 4).with_(axes=(-2, -1)),
    arg(3, 4).with_(axes=(-2,)),
)


@op(
    infer=like_first,
    vjp=[lambda ct, y, x, *, axes: ifftshift(ct, axes=axes)],
    linear=True,
    batch=Batch.MATRIX,
    spelling="np.fft.fftshift",
    samples=_SHIFTS,
)
def fftshift(x, *, axes):
    """`x` with the frequency 0 in the middle of `axes`."""
    return xp.fft.fftshift(x, axes)


@op(
    infer=like_first,
    vjp=[lambda ct, y, x, *, axes: fftshift(ct, axes=axes)],
    linear=True,
    batch=Batch.MATRIX,
    spelling="np.fft.ifftshift",
    samples=_SHIFTS,
)
def ifftshift(x, *, axes):
    """The inverse of `fftshift`."""
    return xp.fft.ifftshift(x, axes)


def _accept_shift(which: Any) -> None:
    @accept(getattr(np.fft, which.name), f"scipy.fft:{which.name}")
    def _(x, axes=None):
        x = as_array(x)
        rank = ndim_of(x)
        chosen = tuple(range(rank)) if axes is None else axes
        return which(x, axes=tuple([a - rank for a in normal_axes(chosen, rank)]))


for _op in (fftshift, ifftshift):
    _accept_shift(_op)


def _frequencies(shape: Shape) -> ArrayType:
    return ArrayType(shape, np.dtype(np.float64))


@op(
    infer=lambda *, n: _frequencies((n,)),
    vjp=[],
    spelling="np.fft.fftfreq",
    samples=[Sample((), {"n": 5}), Sample((), {"n": 4})],
)
def fftfreq(*, n):
    """The frequencies of `fft`, in cycles per element."""
    return xp.fft.fftfreq(n)


@op(
    infer=lambda *, n: _frequencies((n // 2 + 1,)),
    vjp=[],
    spelling="np.fft.rfftfreq",
    samples=[Sample((), {"n": 5}), Sample((), {"n": 4})],
)
def rfftfreq(*, n):
    """The frequencies of `rfft`, in cycles per element."""
    return xp.fft.rfftfreq(n)


def _accept_frequencies(which: Any) -> None:
    name = f"np.fft.{which.name}"

    @accept(getattr(np.fft, which.name), f"scipy.fft:{which.name}")
    def _(n, d=1.0, device=None, *, xp=None):
        refuse(name, device=device, xp=xp)
        n, d = _size(n, name), as_operand(d)
        if not isinstance(n, Dim) and not is_traced(d):
            return getattr(np.fft, which.name)(n, d)
        made = which(n=n)
        return made if type(d) is float and d == 1.0 else made / d


for _op in (fftfreq, rfftfreq):
    _accept_frequencies(_op)
