"""Towers, projectors and drafts nobody can build: found by their words, counted, never run."""

import json
from pathlib import Path

import pytest

from day0.analysis.analyze import Analysis, of_checkpoint
from day0.checkpoint.headers import Headers, TensorHeader
from day0.checkpoint.source import Checkpoint
from tests import listing

KIMI_K3 = "moonshotai__Kimi-K3"
GLM = "zai-org__GLM-5.2"
V4 = "deepseek-ai__DeepSeek-V4-Flash-0731"


def analysis(corpus: Path, name: str, headers: Headers | None = None) -> Analysis:
    config = json.loads((corpus / "configs" / f"{name}.json").read_text(encoding="utf-8"))
    found = listing.headers(corpus / "headers" / f"{name}.tsv") if headers is None else headers
    return of_checkpoint(
        Checkpoint(id=name, revision="", origin="folder", config=config, headers=found)
    )


def test_tower_and_projector_of_kimi_k3(corpus: Path) -> None:
    got = analysis(corpus, KIMI_K3)
    table = {
        group.name: (group.role, len(group.tensors), group.params) for group in got.model.groups
    }
    assert table == {
        "vision_tower": ("vision", 165, 401_214_464),
        "mm_projector": ("projector", 3, 46_144_512),
    }
    assert (got.proof.status, got.proof.missing, got.proof.unexpected) == ("proved", (), ())
    assert got.params.total == 2_779_931_837_184
    assert got.bytes.checkpoint == 1_560_860_324_864


def test_draft_of_an_unknown_form_is_counted_at_its_logical_size(corpus: Path) -> None:
    """DSpark's experts are packed two to a byte, with a scale for every 32 inputs."""
    got = analysis(corpus, V4)
    (group,) = got.model.groups
    assert (group.name, group.role) == ("mtp", "mtp")
    assert all(name.startswith("mtp.") for name in group.tensors)
    assert got.params.total == 304_180_418_494  # what the hub counts
    assert list(got.model.graphs) == ["main"]
    severity = {finding.code: finding.severity for finding in got.findings}
    assert severity["mtp_opaque"] == "info"


def test_draft_with_strangers_gives_way_to_a_group(corpus: Path) -> None:
    headers = listing.headers(corpus / "headers" / f"{GLM}.tsv")
    tensors = dict(headers.tensors)
    inside = sum(name.startswith("model.layers.78.") for name in tensors)
    for name in ("hc_fn", "hc_base", "hc_scale"):
        tensors[f"model.layers.78.{name}"] = TensorHeader("F32", (24,), 0, 96, headers.shards[0])
    got = analysis(corpus, GLM, Headers(tensors=tensors, shards=headers.shards))
    (group,) = got.model.groups
    assert (group.role, len(group.tensors)) == ("mtp", inside + 3)
    assert list(got.model.graphs) == ["main"]
    assert not [name for name in got.model.weights if name.startswith("mtp.")]
    assert not [name for name in got.model.caches if name.startswith("mtp.")]
    assert got.params.total == 753_329_940_480 + 3 * 24
    assert got.proof.status == "proved"


def test_a_stray_tensor_in_a_draft_is_unexpected(corpus: Path) -> None:
    headers = listing.headers(corpus / "headers" / f"{GLM}.tsv")
    tensors = dict(headers.tensors)
    stray = "model.layers.78.self_attn.extra.weight"
    tensors[stray] = TensorHeader("BF16", (8,), 0, 16, headers.shards[0])
    got = analysis(corpus, GLM, Headers(tensors=tensors, shards=headers.shards))
    assert got.proof.unexpected == (stray,)
    assert list(got.model.graphs) == ["main", "mtp"]
    assert got.model.groups == ()


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("vision_encoder.patch_conv.weight", "vision"),
        ("model.visual.merger.weight", "vision"),
        ("model.audio_tower.layers.0.fc.weight", "audio"),
        ("model.multi_modal_projector.linear.weight", "projector"),
        ("thinker.visual.blocks.0.attn.weight", "vision"),
        ("pre_mm_projector_norm.weight", "projector"),
        ("mtp_dspark.layers.0.weight", "mtp"),
    ],
)
def test_words_tell_the_role(corpus: Path, name: str, role: str) -> None:
    headers = listing.headers(corpus / "headers" / f"{GLM}.tsv")
    tensors = dict(headers.tensors)
    tensors[name] = TensorHeader("BF16", (16, 4), 0, 128, headers.shards[0])
    got = analysis(corpus, GLM, Headers(tensors=tensors, shards=headers.shards))
    (group,) = got.model.groups
    assert (group.role, group.tensors, group.params, group.bytes) == (role, (name,), 64, 128)
    assert got.proof.opaque_bytes == 128
    assert got.proof.unexpected == ()
