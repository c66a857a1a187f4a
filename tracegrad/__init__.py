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
from tracegrad.runtime.cache import SpecializationWarning
from tracegrad.runtime.compiled import compile, grad, value_and_grad, vjp
from tracegrad.runtime.custom import custom_jvp, custom_vjp
from tracegrad.runtime.forward import elementwise_grad, hvp, jvp, linearize, vhp
from tracegrad.runtime.implicit import fixed_point, implicit_root
from tracegrad.runtime.interop import to_jax, to_torch
from tracegrad.runtime.jacobian import hessian, jacfwd, jacobian, jacrev
from tracegrad.runtime.numerical import numerical
from tracegrad.runtime.parts import checkpoint, stop_gradient
from tracegrad.runtime.sparse import sparsity
from tracegrad.runtime.spec import spec
from tracegrad.runtime.transpose import linear_transpose
from tracegrad.runtime.vectorize import vmap
from tracegrad.tools.check import check_grads
from tracegrad.tools.support import support
from tracegrad.trace.associative import associative_scan
from tracegrad.trace.control import cond, switch
from tracegrad.trace.loops import fori_loop, map, scan, while_loop

__version__ = "0.1.0"

__all__ = [
    # transformations
    "checkpoint",
    "compile",
    "custom_jvp",
    "custom_vjp",
    "elementwise_grad",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "implicit_root",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "numerical",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
    # branches and loops
    "associative_scan",
    "cond",
    "fori_loop",
    "map",
    "scan",
    "switch",
    "while_loop",
    # in and around them
    "Source",
    "check_grads",
    "sparsity",
    "to_jax",
    "to_torch",
    "spec",
    "stop_gradient",
    "support",
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
