"""`python -m tracegrad`: the command line."""

import sys

from tracegrad.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
