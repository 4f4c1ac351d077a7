"""Where the corpus of real configurations and header listings lies, if this machine has it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def find(root: Path = ROOT) -> Path | None:
    """The corpus beside the checkout at `root`, or inside it; None where there is none."""
    for place in (root.parent / "shared" / "corpus", root / "shared" / "corpus"):
        if (place / "manifest.tsv").is_file():
            return place
    return None


def names(folder: str, suffix: str, root: Path = ROOT) -> tuple[str, ...]:
    """Stems of the corpus files in `folder`, for parametrizing: no names without the corpus.

    A missing corpus is an error in CI, where an empty parameter set would pass unseen.
    """
    corpus = find(root)
    if corpus is None:
        if in_ci():
            raise FileNotFoundError(f"CI=true, and no shared/corpus beside {root}")
        return ()
    found = (corpus / folder).glob(f"*{suffix}")
    return tuple(sorted(path.name.removesuffix(suffix) for path in found))
