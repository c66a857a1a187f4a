"""The ops: one paragraph each, one file per family.

Importing this package defines every op.
"""

from tracegrad.ops import (  # noqa: F401
    bessel,
    cast,
    convolve,
    create,
    decompositions,
    diagonal,
    eigen,
    einsum,
    elementary,
    elementwise,
    extreme,
    gammas,
    index,
    integrals,
    interpolate,
    join,
    least_squares,
    linalg,
    norm,
    order,
    product,
    quantile,
    ranges,
    rearrange,
    reduce,
    scalar,
    scan,
    scatter,
    select,
    shape,
    special,
    trigonometry,
)
