"""The plan `memory`: what fits, the longest that fits, and the field's numbers."""

from pathlib import Path

import pytest

from day0.analysis.analyze import analyze
from day0.analysis.caches import held as held_of
from day0.analysis.machine import machine
from day0.analysis.memory import BATCHES, equal_block, held, memory, room_of, weight_bytes
from day0.ir.cache import CacheSpec
from day0.ir.recipe import RECIPES
from day0.ir.tensor import TensorSpec
from tests.field_cases.asking import analysis, corpus_config, small

BF16 = RECIPES["bf16"]


def cache(growth: str, dims: tuple[int, ...], *, span: int = 0, layer: int = 0) -> CacheSpec:
    spec = TensorSpec(dims=dims)
    return CacheSpec(name="c", growth=growth, parts=(("k", spec), ("v", spec)), span=span,
                     layer=layer)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kv", "index", "state_layers"),
    [
        ("moonshotai--kimi-k3", 27_648, 0, 69),
        ("qwen--qwen3.5-397b-a17b", 30_720, 0, 45),
        ("zai-org--glm-5.2", 89_856, 21 * 128 * 2, 0),
    ],
)
def test_bytes_of_a_further_token(name: str, kv: int, index: int, state_layers: int) -> None:
    """What two lengths differ by, of all caches together, and how many layers keep states."""
    found = analyze(f"catalog:{name}")
    caches = held(found.model, BF16)
    assert caches.bytes(100_001) - caches.bytes(100_000) == kv + index
    states = sum(times for spec, _, times in caches.kinds if spec.role == "state")
    assert states == state_layers
    for tokens in (1, 4096, 131_072):
        assert caches.bytes(tokens) == held_of(found.model, BF16, tokens)


def test_kimi_k3_has_24_latent_layers() -> None:
    caches = held(analyze("catalog:moonshotai--kimi-k3").model, BF16)
    (latent,) = [kind for kind in caches.kinds if kind[0].growth == "per-token"]
    assert (latent[2], latent[1]) == (24, (512 + 64) * 2)


def test_windows_beside_global_layers_of_gemma_4_26b(corpus: Path) -> None:
    """25 layers of 1,024 tokens with 8 heads of 256, 5 global ones with 2 heads of 512: 2.89 GB at
    128K."""
    found = analysis(corpus_config(corpus, "google__gemma-4-26B-A4B"))
    caches = held(found.model, BF16)
    assert caches.bytes(131_072) == 2_894_069_760
    assert caches.bytes(131_073) - caches.bytes(131_072) == 5 * 4096
    window, whole = (25, 2 * 8 * 256 * 2), (5, 2 * 2 * 512 * 2)
    assert sorted((count, size) for _, size, count in caches.kinds) == [whole, window]


def test_kimi_k3_as_stored_fits_neither_one_h200_nor_eight(corpus: Path) -> None:
    found = analysis(corpus_config(corpus, "moonshotai__Kimi-K3"))
    for count in (1, 8):
        plan = memory(found.model, BF16, machine("h200", count), context=1_048_576)
        (stored,) = [way for way in plan.ways if way.held_as == "as stored"]
        assert 1.55e12 < stored.weights < 1.57e12
        assert stored.gpus > 8
        assert not any(cell.fits for cell in stored.cells)
        assert set(stored.longest.values()) == {0}
    enough = memory(found.model, BF16, machine("h200", stored.gpus), context=1_048_576)
    assert enough.ways[1].longest[1] > 4096
    assert enough.ways[0].longest[1] == 0  # dequantised it takes more than three times as much


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_the_longest_fits_and_one_token_more_does_not(gpus: int) -> None:
    found = analyze("catalog:meta-llama--meta-llama-3.1-70b")
    plan = memory(found.model, BF16, machine("h200", gpus), context=None)
    (way,) = plan.ways
    caches = held(found.model, BF16)
    assert plan.room == gpus * room_of(plan.machine) == gpus * (126_900_000_000 - 2 * 2**30)
    for batch in BATCHES:
        longest = way.longest[batch]
        assert way.weights + batch * caches.bytes(longest + 1) > plan.room
        assert longest == 0 or way.weights + batch * caches.bytes(longest) <= plan.room
    for cell in way.cells:
        assert cell.bytes == way.weights + cell.batch * caches.bytes(cell.tokens)
        assert cell.fits == (cell.tokens <= way.longest[cell.batch])
    assert (way.longest[1] > 0) == (gpus > 1)  # 141 GB of weights


def test_a_stated_context_is_the_limit() -> None:
    found = analyze("catalog:meta-llama--meta-llama-3.1-8b")
    plan = memory(found.model, BF16, machine(), context=131_072)
    assert plan.ways[0].longest[1] == 131_072
    assert max(cell.tokens for cell in plan.ways[0].cells) == 131_072


def test_weights_are_counted_once_in_the_formats_they_run_in() -> None:
    """Tied: embedding 30 x 24; q, k, v, o 24 x (32 + 16 + 16 + 32); three of 24 x 40; norms."""
    found = analysis(small())
    elements = 30 * 24 + 2 * (24 * 96 + 3 * 24 * 40 + 2 * 24) + 24
    assert weight_bytes(found.model, BF16) == 2 * elements
    assert weight_bytes(found.model, RECIPES["fp32"]) == 4 * elements


def test_case_067_the_block_of_equal_pages() -> None:
    """Qwen3-Next: states of 32 x 128 x 128 in fp32 (2 MiB) over 2 x 2 x 256 x 2 = 2,048 B of keys
    and values a token: 1,024 tokens, not the 2,048 of keys alone."""
    found = analyze("catalog:qwen--qwen3-next-80b-a3b-instruct")
    assert equal_block(found.model, BF16) == 1024
    assert equal_block(analyze("catalog:meta-llama--meta-llama-3.1-8b").model, BF16) == 0
