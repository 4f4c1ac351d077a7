"""Caches as FP8 codes and scales in pages: bytes as analysed, entries as emulated, equal logits."""

from pathlib import Path

import pytest
import torch

from day0.analysis.caches import entry_bytes
from day0.checkpoint.load import DEMO, load
from day0.ir.cache import CacheSpec
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES, Recipe
from day0.ir.tensor import TensorSpec
from day0.models.read import read_model
from day0.models.recipes import recipe_of
from day0.runtime.binder import Call, Frame
from day0.runtime.codes import coding
from day0.runtime.pools import paged
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session, open_session
from day0.runtime.step import Step, make_step
from day0.runtime.storage import Storage
from day0_kernels.sparse_mla.reference import sparse_mla
from tests import fake_gpu

CPU = torch.device("cpu")
PROMPTS = ([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4], [2, 7, 1, 8, 2])
ONLY_FP8 = recipe_of({"base": "fp8", "plain": "fp32"}, name="only", where="a test")
PAGE = 8


@pytest.fixture(scope="module")
def demo() -> Model:
    return read_model(load(str(DEMO))).model


def opened(demo: Model, recipe: Recipe, *, held: bool) -> Session:
    files = {"headers": load(str(DEMO)).headers, "folder": Path(DEMO)}
    if held:
        return fake_gpu.opened(demo, recipe, **files)
    return open_session(demo, recipe, sizes=fake_gpu.SIZES, **files)


def test_bytes_are_those_of_the_analysis(demo: Model) -> None:
    """Of an entry of each cache, scales included: what is allocated is what `analyze` says."""
    session = opened(demo, RECIPES["fp8"], held=True)
    storage, recipe = session.storage, RECIPES["fp8"]
    kinds = set()
    for name, cache in storage.caches.items():
        lead = 2 if paged(cache) or cache.growth == "window" else 1
        buffers = [*storage.parts[name].values(), *storage.scales[name].values()]
        size = sum(one[(0,) * lead].numel() * one.element_size() for one in buffers)
        assert size == entry_bytes(cache, recipe), name
        kinds |= {(cache.role, recipe.cache(cache)) for _ in storage.scales[name]}
        assert bool(storage.scales[name]) == (name in session.lowered["decode"].held.caches)
    assert kinds == {("kv", "fp8_t128"), ("index", "mxfp8")}


def test_the_kernel_over_fp8_pages_is_chosen(demo: Model) -> None:
    for low in fake_gpu.lowered(demo, RECIPES["fp8"]).values():
        found = [one for one in low.choices.values() if one.family == "sparse_mla"]
        assert {(one.backend, one.formats) for one in found} == {
            ("triton", ("bf16", "fp8_t128"))
        }  # w_uk and w_uv, latents (and the rotated keys, in bf16)
        written = [one for one in low.choices.values() if one.family == "cache_write"]
        assert {one.formats for one in written} == {("fp8_t128", "bf16")}
        assert not any("emulated" in name for one in low.choices.values() for name in one.formats)


def test_attention_reads_what_the_pages_hold(demo: Model) -> None:
    """Every call while a batch is served, prefill and decode: as the definition over contiguous
    history that is dequantised."""
    session = opened(demo, ONLY_FP8, held=True)
    assert session.lowered["decode"].held.caches
    seen: dict[str, int] = {"prefill": 0, "decode": 0}

    def watch(call: Call, frame: Frame) -> None:
        op = call.op
        if op.family != "sparse_mla":
            return
        storage, step = session.storage, frame.step
        cache = storage.caches[op.caches[0].cache]
        history = storage.history(cache, step, {})
        parts = {part: storage.gather(cache, part, history) for part, _ in cache.parts}
        got = frame.values[op.outputs[0][1]]
        wanted = torch.empty_like(got)
        sparse_mla(
            **{slot: frame.values[value] for slot, value in op.inputs},
            **{slot: session._weights[name] for slot, name in op.weights},
            **parts, **dict(op.attrs), y=wanted, cu_seqlens=step.cu_seqlens,
            positions=step.positions, cu_history=history.cu_history,
            history_first=history.history_first,
        )  # fmt: skip
        assert float((got - wanted).norm() / wanted.norm()) < 1e-5
        seen[step.phase] += 1

    engine = session.engine()
    name = session.logits_name
    engine._run = lambda step, inputs: session.run(step, inputs, watch=watch)[name]
    requests = [engine.add(tuple(ids), Sampling(max_new_tokens=4)) for ids in PROMPTS]
    for _ in engine.serve():
        pass
    assert [len(one.tokens) for one in requests] == [len(ids) + 4 for ids in PROMPTS]
    assert seen["prefill"] > 0
    assert seen["decode"] == 2 * 3  # indexed layers, steps after the first token


def test_logits_are_those_of_the_emulation(demo: Model) -> None:
    """Where a value lies between two codes, 1e-7 of rounding decides which one it gets: from there
    on a row may be off by some of FP8's own 6 %, and so are those that see it."""
    held, emulated = (
        opened(demo, ONLY_FP8, held=held).logits(PROMPTS[0], chunks=(7, 5))
        for held in (True, False)
    )
    apart = (held - emulated).norm(dim=-1) / emulated.norm(dim=-1)
    assert float(apart[0]) < 1e-4
    assert float(apart.max()) < 0.1


def storages(cache: CacheSpec, name: str) -> tuple[Storage, Storage]:
    """(held, emulated)."""
    form = coding(name)
    assert form is not None
    common = {
        "page_size": PAGE, "num_pages": {0: 6}, "num_slots": 2, "device": CPU,
        "dtypes": {"c": torch.float32},
    }  # fmt: skip
    held = Storage({"c": cache}, codings={"c": {"entry": form}}, **common)
    return held, Storage({"c": cache}, roundings={"c": {"entry": form.values}}, **common)


def step(starts: list[int], lengths: list[int]) -> Step:
    return make_step(
        "prefill", starts=starts, lengths=lengths, slots=[1, 2],
        tables={0: [[4, 2, 1], [3, 5, 6]]}, device=CPU,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["fp8_t128", "mxfp8"])
@pytest.mark.parametrize("dims", [(256,), (3, 80)], ids=["row", "heads"])
def test_rows_are_the_emulated_ones(name: str, dims: tuple[int, ...], seed: int) -> None:
    spec = TensorSpec(dims=dims, format="fp32")
    cache = CacheSpec(name="c", growth="per-token", parts=(("entry", spec),))
    held, emulated = storages(cache, name)
    generator = torch.Generator().manual_seed(seed)
    for now in (step([0, 0], [5, 9]), step([5, 9], [7, 1]), step([12, 10], [1, 1])):
        rows = torch.randn(now.num_rows, *dims, generator=generator) ** 3
        for one in (held, emulated):
            one.write_rows(cache, "entry", now, rows)
        history = held.history(cache, now, {})
        ours = held.gather(cache, "entry", history)
        assert torch.equal(ours, emulated.gather(cache, "entry", history))
        assert bool((ours[-1] != 0).any())
        assert held.gather(cache, "entry", history, torch.bfloat16).dtype == torch.bfloat16
    assert not held.parts["c"]["entry"][0].float().any()  # page 0 is nobody's
    assert not held.scales["c"]["entry"][0].float().any()


def test_pools_written_back_keep_their_codes(seed: int) -> None:
    """A definition gathers all pools, adds one and writes all of them back."""
    spec = TensorSpec(dims=(64,), format="fp32")
    cache = CacheSpec(name="c", growth="pooled", every=4, parts=(("entry", spec),))
    held, emulated = storages(cache, "mxfp8")
    generator = torch.Generator().manual_seed(seed)
    codes = None
    for end in range(4, 24, 4):
        now = step([end - 4, 0], [4, 0])
        fresh = torch.randn(64, generator=generator) ** 3
        history = held.history(cache, now, {})
        for one in (held, emulated):
            rows = one.gather(cache, "entry", history)
            rows[-1] = fresh
            one.scatter(cache, "entry", history, rows)
        ours = held.gather(cache, "entry", history)
        assert torch.equal(ours, emulated.gather(cache, "entry", history))
        now_codes = held.parts["c"]["entry"].flatten(0, 1).view(torch.uint8)[history.index]
        if codes is not None:
            assert torch.equal(now_codes[:-1], codes)
        codes = now_codes
