"""A hub on loopback for the tests of this folder."""

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

from day0.checkpoint import hub_range
from tests.checkpoint.build import sharded_files
from tests.checkpoint.hub_server import Hub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "day0"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a sharded checkpoint, and the client in this process pointed at it."""
    with Hub(sharded_files()) as server:
        # The client read its environment when it was imported: the constants are set instead.
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "library"))
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 5)
        monkeypatch.setattr(hub_range, "FIRST_PAUSE", 0.01)
        # Its own pauses between attempts go away; time.sleep itself stays, the server needs it.
        for module in (_http, file_download):
            monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        yield server
