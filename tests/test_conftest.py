"""The fixtures do what they say, since the other tests lean on them."""

import os
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import corpus as corpus_place
from tests.network import NetworkBlocked, is_loopback


def test_loopback_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("localhost", port), timeout=5) as client:
            accepted, address = server.accept()
            with accepted:
                assert address == client.getsockname()


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(NetworkBlocked, match=host):
        socket.create_connection((host, 443), timeout=1)


def test_connect_itself_is_guarded() -> None:
    with socket.socket() as sock:
        with pytest.raises(NetworkBlocked, match=r"192\.0\.2\.1"):
            sock.connect(("192.0.2.1", 443))
        with pytest.raises(NetworkBlocked, match=r"192\.0\.2\.1"):
            sock.connect_ex(("192.0.2.1", 443))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("localhost.example", False)],
)
def test_what_counts_as_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_caches_are_temporary() -> None:
    temporary = Path(tempfile.gettempdir())
    for name in ("DAY0_CACHE", "HF_HOME"):
        assert Path(os.environ[name]).is_relative_to(temporary)
    assert "HF_TOKEN" not in os.environ


def test_seed_follows_the_run(seed: int, run_seed: int) -> None:
    assert run_seed == int(os.environ["DAY0_SEED"])
    assert 0 <= seed < 2**31
    assert seed != run_seed


def test_corpus_is_found_beside_a_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    place = tmp_path / "shared" / "corpus"
    place.mkdir(parents=True)
    assert corpus_place.find(checkout) is None
    (place / "manifest.tsv").write_text("id\n")
    assert corpus_place.find(checkout) == place


def test_missing_corpus_is_an_error_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert corpus_place.names("configs", ".json", tmp_path) == ()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(FileNotFoundError, match="CI=true"):
        corpus_place.names("configs", ".json", tmp_path)


def test_corpus_has_the_configurations_it_lists(corpus: Path) -> None:
    names = corpus_place.names("configs", ".json")
    assert "zai-org__GLM-5.3-Flash" in names
    assert (corpus / "headers").is_dir()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_nan_poison_fills_fresh_memory(nan_poison: None) -> None:
    import torch

    assert torch.empty(7).isnan().all()
    assert torch.empty(7, dtype=torch.bfloat16).isnan().all()
    assert (torch.empty(7, dtype=torch.int32) == torch.iinfo(torch.int32).max).all()


def test_a_failure_prints_the_seed(tmp_path: Path) -> None:
    conftest = Path(__file__).with_name("conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_red.py").write_text("def test_red(seed):\n    assert seed < 0\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(tmp_path)],
        env={**os.environ, "DAY0_SEED": "8128", "PYTHONPATH": str(corpus_place.ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "repeat with DAY0_SEED=8128" in result.stdout
