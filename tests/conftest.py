"""Settings that every test shares.

Oracles are imported by the tests that use them, never here: one test proves that
`import tracegrad` loads none of them.
"""

import os

import numpy as np
import pytest
from hypothesis import settings

# Oracles run on the CPU, whatever the machine has.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# The same examples on every run, so that a red test is red for everybody; no
# deadline, since the machines that run the tests are shared.
settings.register_profile("tracegrad", deadline=None, derandomize=True)
settings.load_profile("tracegrad")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20240229)
