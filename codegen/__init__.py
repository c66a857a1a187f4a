"""Code generation: from a graph to readable Python source.

The folder lies at top level but is imported as `tracegrad.codegen` only: as plain
`codegen` it would be shadowed by, or shadow, any user's own `codegen.py`.
"""

if __name__ != "tracegrad.codegen":
    raise ImportError(
        f"this package is tracegrad.codegen, but was imported as {__name__!r}; "
        "install tracegrad (`pip install -e .`) and import tracegrad.codegen"
    )
