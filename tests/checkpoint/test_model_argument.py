"""MODEL: what it may be, and what the message says when it is something else."""

from pathlib import Path

import pytest

from day0.checkpoint import load as load_module
from day0.checkpoint.load import load
from day0.errors import Day0Error
from tests.checkpoint.build import single_files, write


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "MODEL '' is neither a folder nor a hub id; allowed is a hub id org/name[@revision]"),
        ("gpt2", "MODEL 'gpt2' is neither a folder nor a hub id"),
        ("./nowhere", "the folder './nowhere' does not exist"),
        ("/nowhere/at/all", "the folder '/nowhere/at/all' does not exist"),
        ("~/nowhere-at-all", "the folder '~/nowhere-at-all' does not exist"),
        ("a/b/c", "the folder 'a/b/c' does not exist"),
        ("org/name/", "the folder 'org/name/' does not exist"),
        ("C:\\models\\x", "the folder 'C:\\\\models\\\\x' does not exist"),
        ("org/name@", "MODEL 'org/name@' is neither a folder nor a hub id"),
        ("org/na me", "MODEL 'org/na me' is neither a folder nor a hub id"),
        ("org/..", "MODEL 'org/..' is neither a folder nor a hub id"),
        ("org/a--b", "MODEL 'org/a--b' is neither a folder nor a hub id"),
        ("https://hub.example/org/name", "is an address; allowed is a hub id"),
        ("catalog:x", "MODEL 'catalog:x' is neither"),
        ("a\0b", "MODEL 'a\\x00b' is neither"),
        ("x" * 5000, "is neither a folder nor a hub id"),
    ],
    ids=lambda value: ascii(value[:20]),
)
def test_what_is_no_model(model: str, words: str):
    with pytest.raises(Day0Error) as caught:
        load(model)
    assert words in caught.value.message
    assert caught.value.hint


def test_a_file_is_no_model(tmp_path: Path):
    write(tmp_path, single_files())
    with pytest.raises(Day0Error, match="is a file; allowed is") as caught:
        load(str(tmp_path / "config.json"))
    assert caught.value.hint == f"give its folder: day0 analyze {tmp_path}"


def test_demo_is_the_folder_beside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load_module, "DEMO", write(tmp_path, single_files()))
    found = load("demo")
    assert (found.id, found.revision, found.origin) == ("demo", "", "demo")
    assert found.headers is not None


def test_the_cache_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DAY0_CACHE", "~/somewhere")
    assert load_module.default_cache() == Path.home() / "somewhere"
    monkeypatch.delenv("DAY0_CACHE")
    assert load_module.default_cache() == Path.home() / ".cache" / "day0"
