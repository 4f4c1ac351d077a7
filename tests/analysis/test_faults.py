"""One fault at a time, on five families: exactly that finding, with the tensor or key, no other."""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from day0.analysis.analyze import Analysis, analyze
from day0.errors import Day0Error
from tests import surgery

pytestmark = pytest.mark.hf

FAMILIES = ("kimi_linear", "glm5_next", "qwen3_next", "deepseek_v32", "bailing_hybrid")
# The sound checkpoints' own expert pattern: one stacked matrix of one MoE layer.
EXPERT = ".experts."


@dataclass(frozen=True)
class Case:
    """A sound checkpoint, what it was found to be, and where it may be changed."""

    folder: Path
    before: Analysis
    rng: random.Random


@pytest.fixture(params=FAMILIES)
def case(request: pytest.FixtureRequest, tiny: Any, tmp_path: Path, seed: int) -> Case:
    checkpoint = tiny(request.param)
    folder = surgery.copy(checkpoint.folder, tmp_path / "changed")
    return Case(folder=folder, before=analyze(str(folder)), rng=random.Random(seed))


def found(
    case: Case, code: str, *words: str, severities: tuple[str, ...] = ("warning", "error")
) -> Analysis:
    """The changed checkpoint has exactly one finding more, of this code and naming these words."""
    after = analyze(str(case.folder))
    old = Counter((item.code, item.message) for item in case.before.findings)
    new = [item for item in after.findings if not old[item.code, item.message]]
    assert [item.code for item in new] == [code], [(i.code, i.message, i.evidence) for i in new]
    text = " ".join((new[0].message, *new[0].evidence))
    for word in words:
        assert word in text, (word, text)
    assert new[0].severity in severities
    return after


def pick(case: Case, wanted: Callable[[str, tuple[str, list[int]]], bool]) -> str:
    """A tensor at random among those wanted."""
    names = [name for name, entry in surgery.tensors(case.folder).items() if wanted(name, entry)]
    name = case.rng.choice(sorted(names))
    print(f"changed tensor: {name}")
    return name


def test_untouched_has_no_warning(case: Case) -> None:
    assert [item for item in case.before.findings if item.severity != "info"] == []
    assert case.before.proof.status == "proved"


def test_a_changed_shape(case: Case) -> None:
    name = pick(case, lambda name, entry: "o_proj" in name or "dense.weight" in name)

    def change(tensors: surgery.Tensors) -> None:
        dtype, shape = tensors[name]
        tensors[name] = (dtype, [shape[0] + 1, *shape[1:]])

    surgery.change_tensors(case.folder, change)
    after = found(case, "shape_mismatch", name)
    assert after.proof.status == "contradicted"


def test_b_a_dropped_expert(case: Case) -> None:
    name = pick(case, lambda name, entry: EXPERT in name)
    surgery.change_tensors(case.folder, lambda tensors: tensors.pop(name) and None)
    after = found(case, "missing_tensor", name)
    assert after.proof.missing == (name,)


def test_c_an_added_tensor(case: Case) -> None:
    layer = pick(case, lambda name, entry: "input_layernorm" in name)
    name = layer.replace("input_layernorm", "self_attn.extra")
    surgery.change_tensors(case.folder, lambda tensors: tensors.update({name: ("F32", [7, 3])}))
    after = found(case, "unexpected_tensor", name)
    assert after.proof.unexplained_bytes == 84


def test_d_a_swapped_dtype(case: Case) -> None:
    name = pick(case, lambda name, entry: EXPERT in name)
    surgery.change_tensors(
        case.folder, lambda tensors: tensors.update({name: ("BF16", tensors[name][1])})
    )
    found(case, "dtype_deviates", name)


def test_e_a_scale_lost(case: Case) -> None:
    name = f"{case.rng.choice(surgery.quantise_experts(case.folder))}_scale_inv"
    sound = analyze(str(case.folder))
    assert [item for item in sound.findings if item.severity != "info"] == []
    assert sound.proof.status == "proved"
    surgery.change_tensors(case.folder, lambda tensors: tensors.pop(name) and None)
    after = found(Case(case.folder, sound, case.rng), "quant.scale-missing", name)
    assert after.proof.missing == (name,)


def test_f_a_truncated_shard(case: Case) -> None:
    file = case.folder / "model.safetensors"
    os.truncate(file, file.stat().st_size - 5)
    with pytest.raises(Day0Error) as error:
        analyze(str(case.folder))
    assert "model.safetensors" in error.value.message
    assert error.value.exit_code == 2


def test_g_a_layer_under_another_name(case: Case) -> None:
    norm = pick(case, lambda name, entry: ".input_layernorm" in name)
    layer = norm.split("input_layernorm")[0]
    names = [name for name in surgery.tensors(case.folder) if name.startswith(layer)]
    tails = [name[len(layer) :] for name in names]
    module = case.rng.choice(sorted({tail.split(".")[0] for tail in tails if tail.count(".") > 1}))
    print(f"renamed module: {layer}{module}")

    def change(tensors: surgery.Tensors) -> surgery.Tensors:
        return {
            name.replace(f"{layer}{module}.", f"{layer}strange."): entry
            for name, entry in tensors.items()
        }

    surgery.change_tensors(case.folder, change)
    found(case, "renamed_tensors", f"{layer}strange.")


def test_h_a_draft_declared_and_not_shipped(case: Case) -> None:
    surgery.change_config(case.folder, lambda config: config.update(num_nextn_predict_layers=1))
    found(case, "mtp_missing", "num_nextn_predict_layers")


def test_i_a_draft_shipped_and_not_declared(case: Case) -> None:
    """One more layer after the last, with the tensors that make it a draft (DeepSeek-V3's form)."""
    hidden = case.before.spec.shape.hidden_size
    last = len(case.before.spec.layers) - 1
    norm = pick(case, lambda name, entry: f"layers.{last}.input_layernorm" in name)
    stem = norm.split(f"{last}.input_layernorm")[0]

    def change(tensors: surgery.Tensors) -> None:
        layer = f"{stem}{last}."
        own = {name: entry for name, entry in tensors.items() if name.startswith(layer)}
        draft = f"{stem}{last + 1}."
        tensors.update({draft + name[len(layer) :]: entry for name, entry in own.items()})
        tensors[f"{draft}eh_proj.weight"] = ("F32", [hidden, 2 * hidden])
        for name in ("enorm", "hnorm", "shared_head.norm"):
            tensors[f"{draft}{name}.weight"] = ("F32", [hidden])

    surgery.change_tensors(case.folder, change)
    after = found(case, "mtp_undeclared", "num_nextn_predict_layers", severities=("info",))
    assert after.proof.status == "proved"
    assert after.params.trunk == case.before.params.trunk


def test_j_the_tie_flag_against_the_file(case: Case) -> None:
    if "lm_head.weight" not in surgery.tensors(case.folder):
        # a base model, saved without a head: give it one
        size = [case.before.spec.vocab_size, case.before.spec.shape.hidden_size]
        surgery.change_tensors(
            case.folder, lambda tensors: tensors.update({"lm_head.weight": ("F32", size)})
        )
        case = Case(case.folder, analyze(str(case.folder)), case.rng)
    flag = surgery.config(case.folder).get("tie_word_embeddings", False)
    surgery.change_config(case.folder, lambda config: config.update(tie_word_embeddings=not flag))
    found(case, "tie_conflict", "tie_word_embeddings")


def test_k_an_excluded_weight_stored_quantised(case: Case) -> None:
    name = case.rng.choice(surgery.quantise_experts(case.folder))
    sound = analyze(str(case.folder))
    module = name.removesuffix(".weight")
    surgery.change_config(
        case.folder,
        lambda config: config["quantization_config"]["modules_to_not_convert"].append(module),
    )
    changed = Case(case.folder, sound, case.rng)
    found(changed, "quant.excluded-but-quantised")


def test_l_a_list_of_the_wrong_length(case: Case) -> None:
    config = surgery.config(case.folder)
    key = next(key for key in ("layer_types", "mlp_layer_types") if key in config)
    surgery.change_config(case.folder, lambda config: config[key].pop())
    found(case, "list_length", key)
