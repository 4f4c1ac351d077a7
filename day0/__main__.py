"""`python -m day0`, which also works from a checkout where nothing is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("day0_kernels") is None:
    sys.path.append(str(Path(__file__).resolve().parents[1] / "kernels"))

from day0.cli.app import main

# Spawned workers import this module again: the path is extended for them, the CLI is not run.
if __name__ == "__main__":
    main()
