"""Recipes on the definitions: what is rounded, what stays bit for bit, and how far logits move."""

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from day0.analysis.caches import entry_bytes
from day0.checkpoint.load import load
from day0.ir.cache import CacheSpec
from day0.ir.graph import Model
from day0.ir.recipe import KEPT, RECIPES, Recipe
from day0.ir.tensor import TensorSpec
from day0.models.read import read_model
from day0.models.recipes import recipe_called
from day0.passes.lower import OPTIONAL
from day0.runtime.codes import coding
from day0.runtime.pools import paged
from day0.runtime.session import Session, Sizes, open_session
from day0.runtime.step import Step, graph_inputs, make_step
from day0.runtime.storage import History, Storage
from day0_kernels.basic.reference import linear
from day0_kernels.experts.reference import experts
from tests import tiny as tinies

pytestmark = pytest.mark.hf

Tiny = Callable[..., tinies.TinyCheckpoint]
# All experts are chosen and the prompt is shorter than every top-k, so that no choice flips.
ALL = {
    "glm5_next": {
        "n_routed_experts": 8, "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1,
        "index_topk": 420,  # a multiple of every pool size that may be drawn
    },
    "kimi_linear": {
        "num_experts": 8, "num_experts_per_token": 8, "num_expert_group": 1, "topk_group": 1,
    },
    "llama": {},
}  # fmt: skip
LENGTH = 20
# fp8 in every role of the built-in recipe, the rest in fp32: rounding by FP8 and nothing else.
ONLY_FP8 = "base: fp8\nplain: fp32\n"


@pytest.fixture
def only_fp8(tmp_path: Path) -> Recipe:
    path = tmp_path / "only.yaml"
    path.write_text(ONLY_FP8)
    return recipe_called(str(path))


def opened(folder: Path, recipe: Recipe) -> Session:
    """Without the optional passes, so that weights and caches have the checkpoint's names."""
    checkpoint = load(str(folder))
    model = read_model(checkpoint).model
    return open_session(
        model, recipe, headers=checkpoint.headers, folder=folder,
        sizes=Sizes(tokens=64, sequences=2, chunk=64), without=tuple(OPTIONAL),
    )  # fmt: skip


def written(format_name: str, x: torch.Tensor) -> torch.Tensor:
    """x as the format holds it."""
    found = coding(format_name)
    assert found is not None
    return found.values(x)


def ids_of(model: Model, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.spec.vocab_size, (LENGTH,), generator=generator).tolist()


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert bool(ours.isfinite().all())
    return float((ours - theirs).norm() / theirs.norm())


def stepped(session: Session, ids: list[int], watch: Any = None) -> None:
    """One prefill step over the session's own storage."""
    limits = session.limits
    pages = list(range(1, -(-len(ids) // limits.page_size) + 1))
    step = make_step(
        "prefill", starts=[0], lengths=[len(ids)], slots=[1],
        tables={span: [pages] for span in limits.num_pages},
        device=torch.device("cpu"), all_rows=True,
    )  # fmt: skip
    inputs = graph_inputs(ids, [[]], session.history, torch.device("cpu"))
    session.run(step, inputs, watch=watch)


@pytest.mark.parametrize("kind", ALL)
def test_logits_move_by_a_bounded_amount(
    kind: str, tiny: Tiny, only_fp8: Recipe, seed: int
) -> None:
    """bf16 rounds to 2^-9, FP8 to 2^-4: at most 32 times as far where the network is smooth.
    Measured on random weights: 3 to 8 times."""
    folder = tiny(kind, **ALL[kind]).folder
    wanted = opened(folder, RECIPES["fp32"])
    ids = ids_of(wanted.model, seed)
    logits = wanted.logits(ids)
    near = apart(opened(folder, RECIPES["bf16"]).logits(ids), logits)
    only = apart(opened(folder, only_fp8).logits(ids), logits)
    both = apart(opened(folder, RECIPES["fp8"]).logits(ids), logits)
    print(f"{kind}: bf16 {near:.3f}, fp8 in fp32 {only:.3f}, fp8 {both:.3f}")
    assert 1e-3 < only <= 32 * near
    assert 1e-3 < both <= 32 * near + near


@pytest.mark.parametrize("kind", ["glm5_next", "kimi_linear"])
def test_every_product_rounds_its_rows_and_weights(
    kind: str, tiny: Tiny, only_fp8: Recipe, seed: int
) -> None:
    """Each FP8 linear, while the model runs: bit for bit the definition on rounded rows and rounded
    weights, and within 6.25 % of it on unrounded ones. Experts within 12.5 % (two products)."""
    folder = tiny(kind, **ALL[kind]).folder
    session, plain = opened(folder, only_fp8), opened(folder, RECIPES["fp32"])
    seen = {"linear": 0, "experts": 0}

    def watch(call: Any, frame: Any) -> None:
        op = call.op
        if op.id not in session.precision.activations or op.family == "indexer":
            return
        seen[op.family] += 1
        values = {slot: frame.values[value] for slot, value in op.inputs}
        got = frame.values[op.outputs[0][1]]
        exact, rounded = torch.empty_like(got), torch.empty_like(got)
        high = {slot: plain._weights[name] for slot, name in op.weights}
        if op.family == "linear":
            low = {slot: session._weights[name] for slot, name in op.weights}
            linear(**values, **high, y=exact)
            linear(x=written("fp8_t128", values["x"]), **low, y=rounded)
            assert torch.equal(got, rounded)
            assert apart(got, exact) <= 2**-4
        else:
            experts(**values, **high, y=exact, **dict(op.attrs))
            assert 1e-3 < apart(got, exact) <= 2**-3

    stepped(session, ids_of(session.model, seed), watch)
    assert min(seen.values()) > 0


@pytest.mark.parametrize("kind", ["glm5_next", "kimi_linear"])
def test_high_roles_stay_bit_for_bit(kind: str, tiny: Tiny, only_fp8: Recipe) -> None:
    folder = tiny(kind).folder
    low, high = opened(folder, only_fp8), opened(folder, RECIPES["fp32"])
    narrow = set()
    for name, weight in low.model.weights.items():
        if name not in low._weights:
            continue
        same = torch.equal(low._weights[name], high._weights[name])
        row = low.precision.weights[name]
        if row.runs == "fp8_b128":
            narrow.add(weight.role)
            expected = written("fp8_b128", high._weights[name])
            assert torch.equal(low._weights[name], expected)
            assert not same
        else:
            assert same, name
    assert narrow == {"experts", "shared_expert", "dense"}
    kept = {weight.role for weight in low.model.weights.values()} - narrow
    assert {"attention_proj", "router", "norm", "state"} <= kept
    assert kept & set(KEPT)


def test_fp32_is_untouched(tiny: Tiny) -> None:
    """No rounding anywhere: weights are the stored ones, calls are the definitions themselves."""
    session = opened(tiny("glm5_next").folder, RECIPES["fp32"])
    assert session.precision.activations == {}
    assert not any(session.storage.roundings.values())
    for program in session.programs.values():
        for call in program.calls:
            assert not call.function.__module__.startswith("day0.runtime.emulate")
    assert {row.action for row in session.precision.rows} == {"keep"}


@pytest.mark.parametrize("kind", ["glm5_next", "kimi_linear"])
def test_cache_entries_are_rounded_when_written(kind: str, tiny: Tiny, seed: int) -> None:
    """Keys, latents and index keys are values of their format; tails and states are not rounded."""
    session = opened(tiny(kind, **ALL[kind]).folder, RECIPES["fp8"])
    stepped(session, ids_of(session.model, seed))
    rounded = set()
    for name, parts in session.storage.parts.items():
        cache = session.model.caches[name]
        for part, buffer in parts.items():
            form = session.precision.caches[name][part]
            one = None if coding(form) is None else partial(written, form)
            if one is None:
                assert part == "k_rope" or cache.role in ("state", "conv") or cache.slotted
                continue
            rounded.add(cache.role)
            entries = buffer.flatten(0, 1)
            assert bool(entries.any())
            torch.testing.assert_close(one(entries), entries, rtol=3e-7, atol=0.0)
    assert rounded == ({"kv", "index"} if kind == "glm5_next" else {"kv"})


@pytest.mark.parametrize("kind", ["glm5_next", "kimi_linear", "llama"])
@pytest.mark.parametrize("name", ["fp32", "bf16", "fp8"])
def test_cache_bytes(name: str, kind: str, tiny: Tiny) -> None:
    """An entry in the buffers is as large as analysis says; what is emulated (narrow in analysis)
    lies in fp32 buffers, four bytes an element, and nothing else does."""
    session = opened(tiny(kind).folder, RECIPES[name])
    storage = session.storage
    for cache_name, cache in session.model.caches.items():
        lead = 2 if paged(cache) or cache.growth == "window" else 1
        sizes = {
            part: buffer[(0,) * lead].numel() * buffer.element_size()
            for part, buffer in storage.parts[cache_name].items()
        }
        wide = storage.roundings.get(cache_name, {})
        if not wide:
            assert sum(sizes.values()) == entry_bytes(cache, RECIPES[name])
        for part in wide:
            assert name == "fp8"
            assert sizes[part] == 4 * dict(cache.parts)[part].width


def test_scatter_rounds_what_is_new(seed: int) -> None:
    """Pools that were written before keep their bits, however often the history is written back."""
    spec = TensorSpec(dims=(24,), format="fp32")
    cache = CacheSpec(name="c", growth="pooled", every=4, parts=(("entry", spec),))
    storage = Storage(
        {"c": cache}, page_size=8, num_pages={0: 3}, num_slots=1, dtypes={"c": torch.float32},
        device=torch.device("cpu"), roundings={"c": {"entry": lambda x: written("fp8_t16", x)}},
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    kept = torch.empty(0, 24)
    for end in range(4, 24, 4):
        history: Mapping[tuple[int, int], History] = {}
        step: Step = make_step(
            "prefill", starts=[end - 4], lengths=[4], slots=[1], tables={0: [[1, 2, 3]]},
            device=torch.device("cpu"),
        )  # fmt: skip
        where = storage.history(cache, step, history)  # type: ignore[arg-type]
        rows = storage.gather(cache, "entry", where)
        fresh = torch.randn(24, generator=generator)
        rows[-1] = fresh
        storage.scatter(cache, "entry", where, rows)
        after = storage.gather(cache, "entry", where)
        assert torch.equal(after[:-1], kept)
        assert torch.equal(after[-1], written("fp8_t16", fresh))
        kept = after


def stored_in_fp8(folder: Path, target: Path) -> None:
    """The same checkpoint with its feed-forward matrices as codes and scales of 128 x 128."""
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
    }  # fmt: skip
    (target / "config.json").write_text(json.dumps(config))
    (target / "model.safetensors.index.json").unlink(missing_ok=True)
    tensors: dict[str, torch.Tensor] = {}
    for path in sorted(target.glob("*.safetensors")):
        tensors |= load_file(path)
        path.unlink()
    for name, value in list(tensors.items()):
        if ".mlp." in name:
            scale = value.abs().amax().view(1, 1) / 300  # not what rounding anew would choose
            tensors[name] = (value / scale).to(torch.float8_e4m3fn)
            tensors[name.replace(".weight", ".weight_scale_inv")] = scale
    save_file(tensors, target / "model.safetensors")


def test_stored_codes_are_not_quantised_twice(tiny: Tiny, tmp_path: Path) -> None:
    stored_in_fp8(tiny("llama").folder, tmp_path / "fp8")
    kept, plain = (opened(tmp_path / "fp8", RECIPES[name]) for name in ("fp8", "fp32"))
    dense = [row.name for row in kept.precision.weights.values() if row.role == "dense"]
    assert dense
    for name in dense:
        assert kept.precision.weights[name].action == "keep"
        assert plain.precision.weights[name].action == "dequantise"
        assert torch.equal(kept._weights[name], plain._weights[name])
        again = written("fp8_b128", plain._weights[name])
        assert not torch.equal(again, plain._weights[name])


def test_made_up_weights_are_rounded_too(tiny: Tiny, tmp_path: Path) -> None:
    """--dummy has no codes to keep."""
    stored_in_fp8(tiny("llama").folder, tmp_path / "fp8")
    checkpoint = load(str(tmp_path / "fp8"))
    model = read_model(checkpoint).model
    session = open_session(
        model, RECIPES["fp8"], headers=None, folder=None, dummy_seed=3,
        sizes=Sizes(tokens=64, sequences=1, chunk=32),
    )  # fmt: skip
    dense = [row for row in session.precision.weights.values() if row.role == "dense"]
    assert {row.action for row in dense} == {"keep"}
    for row in dense:
        value = session._weights[row.name]
        torch.testing.assert_close(written("fp8_b128", value), value, rtol=3e-7, atol=0.0)
