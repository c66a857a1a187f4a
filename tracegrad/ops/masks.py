"""Sizes that depend on values: how many elements a mask has that are true.

`x[x > 0]` has a size that no type tells.  It gets a name of its own, and a node that
says what the name stands for; the program is then right for any mask.
"""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.define import Op


def _count(t: ArrayType, *, size: Dim) -> ArrayType:
    return ArrayType((), np.dtype(np.int64), weak=True)


def _true_count(mask, *, size):
    """The number of true elements, which `size` names from here on."""
    return xp.count_nonzero(mask)


# No entry of the table of ops, as it computes nothing that a user asks for.
true_count = Op(_true_count, _count)
true_count.name = true_count.noun = "count"
true_count.binds = "size"
