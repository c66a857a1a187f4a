"""tracegrad: the gradient of a NumPy function, as readable Python source."""

from tracegrad.codegen.source import Source
from tracegrad.errors import (
    ArgumentError,
    ControlFlowError,
    ConversionError,
    DTypeError,
    LeakedTracerError,
    MutationError,
    OutOfBoundsError,
    RandomStateError,
    ShapeError,
    TracegradError,
    UnsupportedError,
)
from tracegrad.ops.cast import stop_gradient
from tracegrad.runtime.cache import SpecializationWarning
from tracegrad.runtime.compiled import compile, grad, value_and_grad, vjp
from tracegrad.runtime.spec import spec

__version__ = "0.1.0"

__all__ = [
    # transformations
    "compile",
    "grad",
    "value_and_grad",
    "vjp",
    # in and around them
    "Source",
    "spec",
    "stop_gradient",
    # errors
    "ArgumentError",
    "ControlFlowError",
    "ConversionError",
    "DTypeError",
    "LeakedTracerError",
    "MutationError",
    "OutOfBoundsError",
    "RandomStateError",
    "ShapeError",
    "SpecializationWarning",
    "TracegradError",
    "UnsupportedError",
    "__version__",
]
