"""One model, read several ways: with and without headers, under another type, under other prefixes.
The figures are the same ones."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from day0.analysis.analyze import Analysis, of_checkpoint
from day0.analysis.caches import CacheTotals, trunk
from day0.checkpoint.headers import Headers
from day0.checkpoint.load import load
from day0.checkpoint.source import Checkpoint
from tests import tiny as tinies

pytestmark = pytest.mark.hf

Tiny = Callable[..., tinies.TinyCheckpoint]
# What files of these types hold beside what their config tells: a base model saved without the head
# that it does not tie; buffers with a copy in every layer.
BASE_MODELS = ("glm5_next", "mistral_large4")
BUFFERS = ("minimax",)
# Where decoders have been published: prefix of the trunk, of its head.
PREFIXES = {
    "bare": ("", "lm_head."),
    "model": ("model.", "lm_head."),
    "inside-model": ("model.language_model.", "lm_head."),
    "beside-model": ("language_model.model.", "language_model.lm_head."),
    "thinker": ("thinker.model.", "thinker.lm_head."),
}
KNOWN_PREFIXES = ("model.language_model.", "language_model.model.", "model.")


def codes(analysis: Analysis) -> list[str]:
    return [item.code for item in analysis.findings if item.severity != "info"]


def figures(analysis: Analysis) -> tuple[int, int, int, int, CacheTotals, str]:
    params = analysis.params
    totals = analysis.cache_totals
    return (
        params.trunk, params.drafts, params.opaque, params.active, totals, analysis.proof.status,
    )  # fmt: skip


def loaded(tiny: Tiny, kind: str) -> Checkpoint:
    return load(str(tiny(kind).folder))


@pytest.mark.parametrize("kind", tinies.ALL_TYPES)
def test_the_config_alone_tells_what_the_headers_tell(kind: str, tiny: Tiny) -> None:
    checkpoint = loaded(tiny, kind)
    stored, promised = (
        of_checkpoint(checkpoint),
        of_checkpoint(replace(checkpoint, headers=None)),
    )
    assert codes(promised) == []
    assert promised.cache_totals == stored.cache_totals
    assert promised.params.active == stored.params.active
    assert promised.params.drafts == stored.params.drafts
    assert [op.id for op in promised.model.graphs["main"].ops] == [
        op.id for op in stored.model.graphs["main"].ops
    ]
    difference = promised.params.trunk - stored.params.trunk
    if kind in BASE_MODELS:
        assert difference == stored.spec.vocab_size * stored.spec.shape.hidden_size
    elif kind in BUFFERS:
        assert difference < 0
    else:
        assert difference == 0


@pytest.mark.parametrize("kind", tinies.ALL_TYPES)
def test_another_name_changes_no_figure(kind: str, tiny: Tiny) -> None:
    checkpoint = loaded(tiny, kind)
    config = copy.deepcopy(dict(checkpoint.config))
    config.update(model_type="brand_new", architectures=["BrandNew"])
    if "text_config" in config:
        config["text_config"].pop("model_type", None)
    before, after = of_checkpoint(checkpoint), of_checkpoint(replace(checkpoint, config=config))
    assert figures(after) == figures(before)
    assert after.proof.status == "proved"
    assert set(codes(after)) <= {"assumed_facts"}
    listed = {fact.path for fact in after.assumed}
    assert {path for path, fact in after.model.facts.items() if fact.how == "assumed"} == listed


def moved(checkpoint: Checkpoint, trunk_prefix: str, head_prefix: str) -> Checkpoint:
    assert checkpoint.headers is not None

    def rename(name: str) -> str:
        if "lm_head." in name:
            return head_prefix + name.rpartition("lm_head.")[2]
        known = next((prefix for prefix in KNOWN_PREFIXES if name.startswith(prefix)), "")
        return trunk_prefix + name[len(known) :] if known else name

    tensors = {rename(name): header for name, header in checkpoint.headers.tensors.items()}
    return replace(checkpoint, headers=Headers(tensors=tensors, shards=checkpoint.headers.shards))


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("kind", ["llama", "deepseek_v32", "kimi_linear", "gpt_oss"])
def test_the_place_of_the_decoder_changes_no_figure(kind: str, prefix: str, tiny: Tiny) -> None:
    checkpoint = loaded(tiny, kind)
    after = of_checkpoint(moved(checkpoint, *PREFIXES[prefix]))
    assert figures(after) == figures(of_checkpoint(checkpoint))
    assert codes(after) == []


@pytest.mark.parametrize("kind", ["qwen3_next", "kimi_linear"])
def test_a_wrapper_around_the_config_changes_no_figure(kind: str, tiny: Tiny) -> None:
    checkpoint = loaded(tiny, kind)
    wrapped: dict[str, Any] = {"model_type": "wrapper", "text_config": dict(checkpoint.config)}
    after = of_checkpoint(replace(checkpoint, config=wrapped))
    assert figures(after) == figures(of_checkpoint(checkpoint))


@pytest.mark.parametrize("kind", ["glm5_next_composite", "qwen3_5_moe_composite"])
def test_a_file_of_text_alone_under_a_composite_type(kind: str, tiny: Tiny) -> None:
    checkpoint = loaded(tiny, kind)
    before = of_checkpoint(checkpoint)
    towers = {name for group in before.model.groups for name in group.tensors}
    assert towers
    assert checkpoint.headers is not None
    text = {n: header for n, header in checkpoint.headers.tensors.items() if n not in towers}
    headers = Headers(tensors=text, shards=checkpoint.headers.shards)
    after = of_checkpoint(replace(checkpoint, headers=headers))
    assert (after.params.trunk, after.params.opaque) == (before.params.trunk, 0)
    assert after.proof.status == "proved"
    assert codes(after) == []


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small matrices on a shared machine: threads cost more than they give."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", tinies.TYPES)
@pytest.mark.usefixtures("one_thread")
def test_kv_bytes_per_token_are_what_the_cache_of_transformers_grows_by(
    kind: str, tiny: Tiny
) -> None:
    checkpoint = tiny(kind)
    analysis = of_checkpoint(load(str(checkpoint.folder)))
    pools = math.lcm(*(c.every for c in trunk(analysis.model) if c.growth == "pooled"))
    tokens = math.ceil(12 / pools) * pools
    grown = sum(
        group.elements
        for layer in tinies.cache_bytes(checkpoint, tokens)
        for name, group in layer.items()
        if name == "kv"
    )
    assert analysis.cache_totals.kv_bytes_per_token * tokens == pytest.approx(2 * grown, rel=1e-12)
