"""Settings of the tests of differentiation."""

from ops.conftest import sizes_are_known  # noqa: F401 - a fixture
