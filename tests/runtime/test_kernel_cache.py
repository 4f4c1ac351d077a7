"""Kernels in DAY0_CACHE, and the count of what is compiled after a process called itself ready."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from day0.runtime import kernel_cache
from day0.runtime.kernel_cache import Compiles, keep_in, watch


def said(cache_hit: bool, seconds: float = 0.25) -> dict:
    """What triton tells a listener of one specialisation."""
    times = SimpleNamespace(total=int(seconds * 1e6))
    return {"src": None, "metadata": {}, "metadata_group": {}, "times": times,
            "cache_hit": cache_hit}  # fmt: skip


def test_what_comes_after_ready_is_counted() -> None:
    count = Compiles()
    for hit in (False, False, True):
        count.heard(**said(hit))
    assert (count.compiled, count.loaded, count.after_ready) == (2, 1, 0)
    assert count.seconds == pytest.approx(0.75)
    count.ready()
    assert count.after_ready == 0
    count.heard(**said(False))  # a specialisation that nobody prepared
    assert count.after_ready == 1
    count.heard(**said(True))  # nor this one, whoever compiled it once
    assert count.after_ready == 2


def test_triton_calls_it_and_whoever_listened_before(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = pytest.importorskip("triton").knobs
    heard: list[dict] = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **words: heard.append(words))
    monkeypatch.setattr(kernel_cache, "COMPILES", Compiles())
    count = watch()
    assert watch() is count  # listens once, however often it is asked
    count.ready()
    knobs.compilation.listener(**said(False))
    assert count.after_ready == 1
    assert len(heard) == 1


def test_a_folder_for_versions_and_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setenv("DAY0_CACHE", str(tmp_path))
    folder = keep_in(None, (9, 0))
    assert folder.parent == tmp_path / "kernels"
    for part in (triton.__version__, torch.__version__, "sm90"):
        assert part in folder.name
    assert Path(triton.knobs.cache.dir) == folder
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert keep_in(tmp_path / "other", (10, 0)).parent == tmp_path / "other" / "kernels"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "mine"))
    assert keep_in(None, (9, 0)) == tmp_path / "mine"


@pytest.mark.gpu
def test_an_unprepared_specialisation_is_seen() -> None:
    """A real kernel at a size that nobody prepared: 1, and 0 when it is launched again."""
    triton = pytest.importorskip("triton")
    from day0_kernels.basic.elementwise import glu

    count = watch()

    def launch(rows: int, width: int) -> None:
        gate, up, y = (torch.zeros(rows, width, device="cuda") for _ in range(3))
        glu(gate, up, y, function="silu")
        torch.cuda.synchronize()

    launch(64, 256)
    count.ready()
    launch(64, 256)
    assert count.after_ready == 0
    launch(64, 257)
    assert count.after_ready == 1
    launch(64, 257)
    assert count.after_ready == 1
    assert triton.knobs.compilation.listener is not None
