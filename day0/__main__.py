"""`python -m day0`, which also works from a checkout where nothing is installed."""

import sys
from pathlib import Path

# The kernels of this checkout, whatever else is installed; an installed day0 has none beside it.
BESIDE = Path(__file__).resolve().parents[1] / "kernels"
if (BESIDE / "day0_kernels").is_dir():
    sys.path.insert(0, str(BESIDE))

from day0.cli.app import main  # noqa: E402 (its imports need the path)

# Spawned workers import this module again: the path is extended for them, the CLI is not run.
if __name__ == "__main__":
    main()
