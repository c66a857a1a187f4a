"""A solver in a module of its own, which saved files import."""

import numpy as np
import scipy.optimize


def cubic(a, b):
    """The roots of x**3 + a * x = b."""
    found = scipy.optimize.root(lambda x: x**3 + a * x - b, np.ones_like(b), tol=1e-13)
    return found.x
