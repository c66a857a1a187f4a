"""PyTorch's autograd on NumPy: `import tracegrad.eager as torch`.

How it is made, from the bottom up: `nodes` (the graph), `tensor` (the state),
`numeric` (rules on numbers), `runtime` and `engine` (the functions of an op, generated
at first use), `inplace` and `versions`, `hooks`, `modes`, `backward`; on top of these,
PyTorch's names are entered through `registry`, one small paragraph each.
"""

import warnings as _warnings

from tracegrad.eager import (  # noqa: F401
    activations,
    aliases,
    arithmetic,
    assembling,
    autograd,
    backends,
    creation,
    cuda,
    drawing,
    fft,
    format,
    func,
    indexing,
    joined,
    linalg,
    measures,
    nn,
    numbers,
    ordering,
    products,
    randoms,
    reductions,
    selection,
    settings,
    shapes,
    source,
    special,
    statistics,
    storing,
    strided,
    testing,
    utils,
)
from tracegrad.eager.creation import Generator
from tracegrad.eager.creation import generator as default_generator
from tracegrad.eager.dtypes import NAMES as _DTYPES
from tracegrad.eager.dtypes import (
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    set_default_dtype,
)
from tracegrad.eager.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tracegrad.eager.registry import FUNCTIONS as _FUNCTIONS
from tracegrad.eager.registry import SHOWN_IN as _SHOWN_IN
from tracegrad.eager.tensor import Parameter, Size, Tensor, Variable, device

# PyTorch computes 1 / 0 and sqrt(-1) in silence.  NumPy's warnings are silenced where
# they come from our own frames only.
_warnings.filterwarnings(
    "ignore", category=RuntimeWarning, module=r"tracegrad\.eager\."
)

__version__ = settings.VERSION
globals().update(_DTYPES)
globals().update(numbers.CONSTANTS)
globals().update(_FUNCTIONS)
_SHOWN_IN.append(globals())

__all__ = [
    "Generator",
    "Parameter",
    "Size",
    "Tensor",
    "Variable",
    "__version__",
    "autograd",
    "backends",
    "creation",
    "cuda",
    "default_generator",
    "device",
    "dtype",
    "enable_grad",
    "fft",
    "finfo",
    "func",
    "get_default_dtype",
    "iinfo",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "linalg",
    "nn",
    "no_grad",
    "set_default_dtype",
    "set_grad_enabled",
    "special",
    "testing",
    "utils",
    *_DTYPES,
    *numbers.CONSTANTS,
    *_FUNCTIONS,
]
