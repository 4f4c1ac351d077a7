"""day0/resources.py in a checkout; tests/packaging reads the same from a wheel."""

from pathlib import Path

import pytest

import day0
from day0 import resources
from tests.corpus import ROOT


def test_a_checkout_reads_its_own_folders() -> None:
    assert resources.folder("checklists") == ROOT / "checklists"
    assert resources.folder("templates") == ROOT / "templates"


def test_an_unknown_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="no data folder 'tests'; there are checklists, templates"):
        resources.folder("tests")


def test_an_install_without_data_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "__file__", str(tmp_path / "day0" / "resources.py"))
    with pytest.raises(FileNotFoundError, match="reinstall day0"):
        resources.folder("checklists")


def test_the_version_is_a_release_number() -> None:
    assert len([int(part) for part in day0.__version__.split(".")]) == 3
