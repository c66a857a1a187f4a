"""The ops: one paragraph each, one file per family.

Importing this package defines every op.
"""

from tracegrad.ops import (  # noqa: F401
    cast,
    create,
    elementary,
    elementwise,
    index,
    product,
    reduce,
    scan,
    scatter,
    select,
    shape,
    trigonometry,
)
