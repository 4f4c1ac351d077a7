"""What the tests of this folder ask a checkpoint or an error for."""

from pathlib import Path

import pytest

from day0.checkpoint.load import load
from day0.checkpoint.source import Checkpoint
from day0.errors import Day0Error


def failure(model: Path | str, cache: Path | None = None, **options: bool) -> Day0Error:
    """The error that loading `model` ends in: exit 2, one line, a hint."""
    with pytest.raises(Day0Error) as caught:
        load(str(model), cache_dir=cache, **options)
    error = caught.value
    assert error.exit_code == 2
    assert "\n" not in error.message
    assert error.hint
    return error


def get(cache: Path, model: str = "org/name", **options: bool) -> Checkpoint:
    """Load from the hub into `cache`."""
    return load(model, cache_dir=cache, **options)


def codes(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """(code, severity) of every finding."""
    return [(finding.code, finding.severity) for finding in checkpoint.findings]


def leftovers(cache: Path) -> list[str]:
    """Files of our cache that are neither whole headers nor listings nor refs."""
    files = [path for path in (cache / "repos").rglob("*") if path.is_file()]
    return [
        path.name
        for path in files
        if path.suffix != ".header" and path.name != "files.json" and path.parent.name != "refs"
    ]
