"""The intermediate representation: sizes, types, graphs and their text."""

from tracegrad.ir import text  # noqa: F401 - gives graphs their repr
