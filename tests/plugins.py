"""What plugins register holds for a process; a test forgets it."""

import sys

import pytest

from day0.mechanisms import index as mechanisms
from day0.models import plugin
from day0.registry import index as families


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers and imports goes away with it."""
    monkeypatch.setattr(families, "_added", {})
    monkeypatch.setattr(families, "_references", {})
    monkeypatch.setattr(families, "_checklists", [])
    monkeypatch.setattr(mechanisms, "_added", {"mixer": [], "ffn": []})
    monkeypatch.setattr(mechanisms, "MECHANISMS", mechanisms.MECHANISMS.copy())
    for user in ("day0.models.build", "day0.models.plugin"):
        monkeypatch.setattr(f"{user}.MECHANISMS", mechanisms.MECHANISMS)
    monkeypatch.setattr(plugin, "_loaded", set())
    monkeypatch.setattr(sys, "path", [*sys.path])
