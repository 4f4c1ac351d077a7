"""The demo checkpoint: its numbers by independent arithmetic, its files, and their script."""

import json
import os
import random
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest

from day0.analysis.analyze import Analysis, analyze, of_checkpoint
from day0.analysis.layers import layer_view
from day0.checkpoint.load import DEMO, load
from tests.corpus import ROOT

FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
         "tokenizer_config.json")  # fmt: skip
VOCAB = 272

# Layer by layer, H = 256: the tensors that stand there, in elements.
KDA = (
    4 * 256 * 256  # q, k, v, o
    + 3 * 256 * 4  # short convolutions
    + 2 * (64 * 256 + 256 * 64)  # low-rank forget gate and output gate
    + 4 * 256  # beta
    + 4 + 256 + 64  # A_log, dt_bias, o_norm
)  # fmt: skip
MLA = (
    128 * 256 + 128 + 4 * (64 + 32) * 128  # q_a, its norm, q_b
    + (128 + 32) * 256 + 128 + 4 * (64 + 64) * 128  # kv_a, its norm, kv_b
    + 2 * 256 * 256  # output gate, o
)  # fmt: skip
INDEXER = 8 * 64 * 128 + 64 * 256 + 2 * 64 + 8 * 256 + 64 * 256 + 4 * 64
DENSE = 3 * 512 * 256
EXPERT = 3 * 32 * 256
MOE = 8 * 256 + 8 + 8 * EXPERT + EXPERT
NORMS = 2 * 256
RESIDUAL = 4 * 256
TRUNK = (
    2 * VOCAB * 256 + 6 * KDA + 2 * (MLA + INDEXER) + DENSE + 7 * MOE + 8 * (NORMS + RESIDUAL)
    + 256 + 2 * 256  # final norm, final mix
)  # fmt: skip
DRAFT = 2 * 256 * 256 + 3 * 256 + NORMS + MLA + INDEXER + MOE
TOTAL = TRUNK + DRAFT
# In fp32: A_log and dt_bias of six layers, the router's bias of eight.
ISLANDS = 6 * (4 + 256) + 8 * 8


@pytest.fixture(scope="module")
def demo() -> Analysis:
    return analyze("demo")


@pytest.fixture(scope="module")
def header() -> dict[str, Any]:
    with (DEMO / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        found = json.loads(file.read(length))
    found.pop("__metadata__")
    return found


def views(analysis: Analysis) -> list[tuple[str, str]]:
    found = [layer_view(i, layer, "") for i, layer in enumerate(analysis.spec.layers)]
    return [(view["mixer"], view["ffn"]) for view in found]


def test_layers(demo: Analysis) -> None:
    mixers = ["kda", "kda", "kda", "sparse_mla"] * 2
    ffns = ["glu"] + ["moe"] * 7
    assert views(demo) == list(zip(mixers, ffns, strict=True))
    assert demo.spec.residual.stem == "attn_residual"
    stores = [layer.sublayers[0].residual.spec.stores for layer in demo.spec.layers]
    assert [i for i, stored in enumerate(stores) if stored] == [0, 4]


def test_mechanisms(demo: Analysis) -> None:
    kda, mla = (demo.spec.layers[i].sublayers[0].branches[0].spec for i in (0, 3))
    moe = demo.spec.layers[7].sublayers[1].branches[0].spec
    assert (kda.num_heads, kda.head_dim, kda.lower_bound, kda.gate_rank) == (4, 64, -5.0, 64)
    assert (mla.rope, mla.rope_dim, mla.out_gate, mla.scale) == (None, 32, "element", 96**-0.5)
    assert (mla.indexer.top_k, mla.indexer.pool, mla.indexer.tail) == (32, 4, True)
    assert (moe.num_experts, moe.top_k, moe.score, moe.bias) == (8, 2, "sigmoid", True)
    assert (moe.shared, moe.scale, moe.renormalise) == (32, 2.5, True)
    # Two stored blocks and the running sum.
    (end,) = (op for op in demo.model.graphs["main"].ops if op.id == "end.mix")
    assert len(end.inputs) == 3


def test_parameters(demo: Analysis, header: dict[str, Any]) -> None:
    assert demo.params.trunk == TRUNK
    assert demo.params.drafts == DRAFT
    assert demo.params.opaque == 0
    assert demo.params.total == TOTAL
    assert demo.params.total == sum(prod(entry["shape"]) for entry in header.values())
    # Two of eight experts; one row of the embedding; a mix multiplies with one vector, the
    # product of its gain and its projection.
    idle = 7 * 6 * EXPERT + VOCAB * 256 + 17 * 256
    assert demo.params.active == TRUNK - idle


def test_the_draft_stands_apart(demo: Analysis) -> None:
    (draft,) = demo.spec.drafts
    assert draft.spec.residual.stem == "residual"
    assert not draft.spec.own_embedding
    assert not draft.spec.own_head
    assert sorted(demo.model.graphs) == ["main", "mtp"]
    assert not [op.id for op in demo.model.graphs["main"].ops if op.id.startswith("mtp")]
    families = Counter(op.family for op in demo.model.graphs["mtp"].ops)
    assert (families["sparse_mla"], families["experts"], families["attn_residual"]) == (1, 1, 0)
    assert demo.model.groups == ()


def test_cache_bytes(demo: Analysis) -> None:
    totals = demo.cache_totals
    assert totals.kv_bytes_per_token == 2 * (128 + 32) * 2
    assert totals.index_bytes_per_token == 2 * 64 * 2 / 4
    # Recurrent states in fp32, three rows of three convolutions in bf16.
    assert totals.state_bytes_per_sequence == 6 * (4 * 64 * 64 * 4 + 3 * 3 * 256 * 2)
    # The open pool: three keys and their gates.
    assert totals.window_bytes_per_sequence == 2 * 3 * 2 * 64 * 2


def test_proved_and_settled(demo: Analysis, header: dict[str, Any]) -> None:
    proof = demo.proof
    assert proof.status == "proved"
    assert proof.expected == proof.matched == len(header)
    assert (proof.missing, proof.unexpected, proof.unexplained_bytes) == ((), (), 0)
    assert demo.findings == ()
    assert demo.unread_keys == ()
    assert demo.settled
    assert [fact.path for fact in demo.assumed if fact.decisive] == []


def test_its_type_is_in_no_table(demo: Analysis) -> None:
    sources = (ROOT / "day0").rglob("*.py")
    tables = [*sources, ROOT / "day0/models/known/class_defaults.json"]
    assert demo.spec.model_type == "day0_demo"
    assert [path for path in tables if "day0_demo" in path.read_text(encoding="utf-8")] == []


def test_config_alone_says_the_same(demo: Analysis) -> None:
    bare = of_checkpoint(replace(load("demo"), headers=None))
    assert bare.params == demo.params
    assert bare.cache_totals == demo.cache_totals
    assert views(bare) == views(demo)
    # Only tensors tell which weights are fp32.
    assert (bare.bytes.checkpoint, demo.bytes.checkpoint) == (2 * TOTAL, 2 * TOTAL + 2 * ISLANDS)
    assert (bare.settled, bare.findings) == (True, ())


def test_files_and_sizes(header: dict[str, Any]) -> None:
    assert sorted(path.name for path in DEMO.iterdir()) == sorted(FILES)
    assert 8e6 < sum(path.stat().st_size for path in DEMO.iterdir()) < 12e6
    islands = {name for name, entry in header.items() if entry["dtype"] == "F32"}
    ends = Counter(name.rpartition(".")[2] for name in islands)
    assert sum(prod(header[name]["shape"]) for name in islands) == ISLANDS
    assert ends == {"A_log": 6, "dt_bias": 6, "e_score_correction_bias": 8}
    assert {entry["dtype"] for name, entry in header.items() if name not in islands} == {"BF16"}


def test_script_writes_the_shipped_files(tmp_path: Path) -> None:
    script = ROOT / "tools" / "make_demo.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (DEMO / name).read_bytes(), name


@pytest.mark.hf
def test_weights_are_spread_and_finite() -> None:
    pytest.importorskip("torch")
    from safetensors.torch import load_file

    for name, tensor in load_file(DEMO / "model.safetensors").items():
        values = tensor.double()
        assert values.isfinite().all(), name
        if values.numel() >= 4096:
            gain = {"lm_head": 2.0, "q_b_proj": 1.5}.get(name.split(".")[-2], 1.0)
            fan_in = 1 if "embed" in name else tensor.shape[-1]
            assert values.std().item() == pytest.approx(gain * fan_in**-0.5, rel=0.05), name
            assert abs(values.mean().item()) < 5 * gain * (fan_in * values.numel()) ** -0.5, name


def test_tokenizer_gives_every_byte_its_value(seed: int) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == VOCAB
    rng = random.Random(seed)
    # Surrogates are no text; the rest of Unicode up to four bytes long is.
    points = [*range(256), *(rng.choice((rng.randrange(0xD800), 0x1F600)) for _ in range(200))]
    text = "".join(map(chr, points))
    ids = tokenizer.encode(text).ids
    assert ids == list(text.encode())
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.encode("<|begin|>a<|end|>").ids == [256, 97, 257]


def test_chat_template() -> None:
    jinja2 = pytest.importorskip("jinja2")
    config = json.loads((DEMO / "tokenizer_config.json").read_text(encoding="utf-8"))
    text = jinja2.Template(config["chat_template"]).render(
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        add_generation_prompt=True,
        **{name: config[name] for name in ("bos_token", "eos_token")},
    )
    assert text == "<|begin|><|system|>Be brief.<|end|><|user|>Hi<|end|><|assistant|>"
    ids = json.loads((DEMO / "generation_config.json").read_text(encoding="utf-8"))
    assert ids == {"bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}


@pytest.mark.parametrize("options", [(), ("--strict", "--format", "json")], ids=["human", "json"])
def test_command_in_a_bare_checkout(options: tuple[str, ...], tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "day0", "analyze", "demo", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    if options:
        report = json.loads(result.stdout)
        assert report["proof"]["status"] == "proved"
        assert report["params"]["total"] == TOTAL
    else:
        assert f"{TOTAL:,}" in result.stdout
        assert "proved" in result.stdout
