"""The Graph that is proved is the program that runs: the same ops in the same order, the same
results by another form, and the same wrong expression caught by proof and run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch

from day0.analysis.analyze import analyze
from day0.analysis.proof import prove
from day0.checkpoint.load import DEMO, load
from day0.errors import Day0Error
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES
from day0.ir.weight import Leaf, Pick, Weight, leaves
from day0.models.read import read_model
from day0.passes.choose import BUILT_IN
from day0.passes.lower import FIRST, OPTIONAL, PHASES
from day0.runtime.binder import Call, Frame
from day0.runtime.engine import Engine
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session, open_session
from day0_kernels import index as kernel_index
from tests import tiny as tinies
from tests.parity.served import Served
from tests.parity.subjects import DEVICE, TOLERANCE, apart, opened

pytestmark = pytest.mark.hf

Tiny = Callable[..., tinies.TinyCheckpoint]
KINDS = ("glm5_next", "kimi_linear", "qwen4_exp", "deepseek_v4", "gpt_oss", "minimax", "llama")


@pytest.mark.parametrize("kind", KINDS)
def test_the_ops_executed_are_the_graphs(kind: str, tiny: Tiny) -> None:
    """In prefill (chunked) and decode steps: analyze's ops, each once, in order, by the entry
    chosen for it; with the passes on, those of the lowered Graph."""
    folder = tiny(kind).folder
    ops = analyze(str(folder)).model.graphs["main"].ops
    session = opened(folder, without=tuple(OPTIONAL))
    ran: list[tuple[str, list[Call]]] = []

    def run(step, inputs):
        calls: list[Call] = []
        ran.append((step.phase, calls))
        found = session.run(step, inputs, watch=lambda call, _: calls.append(call))
        return found[session.logits_name]

    limits = replace(session.limits, chunk=4)
    engine = Engine(run, limits, torch.device(DEVICE), history=session.history)
    engine.add((5, 6, 7, 8, 9, 10), Sampling(max_new_tokens=3))
    for _ in engine.serve():
        pass
    assert [phase for phase, _ in ran] == ["prefill"] * 2 + ["decode"] * 2
    for phase, calls in ran:
        assert tuple(call.op for call in calls) == ops
        chosen = session.lowered[phase].choices
        for call in calls:
            built_in = call.op.family in BUILT_IN
            assert call.entry == (
                f"runtime:{call.op.family}" if built_in else chosen[call.op.id].entry
            )


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_reads_and_writes_what_its_op_says(kind: str, tiny: Tiny) -> None:
    """Values appear in the order of the ops' outputs, and none besides."""
    session = opened(tiny(kind).folder)
    graph = session.lowered["prefill"].graph
    appeared: list[str] = []

    def watch(call: Call, frame: Frame) -> None:
        appeared.extend(name for name in frame.values if name not in {*appeared, *graph.inputs})

    engine = session.engine()
    engine.add((3, 1, 4, 1, 5), Sampling(max_new_tokens=1))
    engine._run = lambda step, inputs: session.run(step, inputs, watch=watch)[session.logits_name]
    for _ in engine.serve():
        pass
    assert appeared == [value for op in graph.ops for _, value in op.outputs]


@pytest.mark.parametrize(
    ("family", "kind"),
    [("mla", "deepseek_v3"), ("mla", "kimi_linear"), ("sparse_mla", "glm_moe_dsa"),
     ("gdn", "qwen3_next"), ("lightning", "minimax")],
)  # fmt: skip
def test_another_form_changes_nothing(
    family: str, kind: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Absorbed instead of expanded, chunked instead of token by token."""
    checkpoint = tiny(kind)
    ids = tinies.model(checkpoint).clear_prompt(40, seed=seed).tolist()
    usual = opened(checkpoint.folder)
    monkeypatch.setitem(kernel_index.REFERENCES, family, kernel_index.OTHER_FORMS[family])
    other = opened(checkpoint.folder)
    used = {call.entry for call in other.programs["decode"].calls if call.op.family == family}
    assert used == {kernel_index.OTHER_FORMS[family]}
    assert apart(other.logits(ids, chunks=(7, 9)), usual.logits(ids)) <= TOLERANCE


def test_every_other_form_is_tried() -> None:
    module = import_module(test_another_form_changes_nothing.__module__)
    marks = module.test_another_form_changes_nothing.pytestmark
    tried = {family for mark in marks for family, _ in mark.args[1]}
    assert tried == set(kernel_index.OTHER_FORMS)


# A pass finds nothing here: no sum stands right before a norm, no residual is a mix of blocks.
UNTOUCHED = {("fuse", kind) for kind in ("qwen4_exp", "deepseek_v4", "minimax")}
UNTOUCHED |= {("two_phase", kind) for kind in KINDS}


@pytest.mark.parametrize("kind", [*KINDS, "demo"])
# Passes for weights held as codes have nothing to do here: tests/passes/test_quantise_rows.py.
@pytest.mark.parametrize("name", FIRST)
def test_a_pass_left_out_changes_nothing(name: str, kind: str, tiny: Tiny, seed: int) -> None:
    """Logits of ragged prompts in chunks and of decode steps, with one optional pass on and off."""
    folder = Path(DEMO) if kind == "demo" else tiny(kind).folder
    with_it, without = opened(folder), opened(folder, without=(name,))
    found = [with_it.lowered[phase].changed[name] for phase in PHASES]
    assert any(found) == ((name, kind) not in UNTOUCHED)
    assert name not in without.lowered["prefill"].changed
    generator = torch.Generator().manual_seed(seed)
    vocab = with_it.model.spec.vocab_size
    asked = [
        (number, tuple(torch.randint(vocab, (length,), generator=generator).tolist()), prompt)
        for number, (length, prompt) in enumerate(((23, 20), (9, 4), (31, 30)))
    ]
    rows = []
    for session in (with_it, without):
        served = Served(session, replace(session.limits, chunk=11))
        served.serve(asked)
        rows.append([served.rows(served.logits[number]) for number, _, _ in asked])
    for (places, on), (also, off) in zip(*rows, strict=True):
        assert places == also
        assert apart(on, off) <= TOLERANCE


Change = Callable[[Model], Model]


def changed(model: Model, name: str, change: Callable[[Weight], Weight]) -> Model:
    weights = {**model.weights, name: change(model.weights[name])}
    return replace(model, weights=weights)


def other_leaf(weight: Weight, **fields) -> Weight:
    leaf = next(leaf for leaf, _ in leaves(weight.source))
    assert weight.source == leaf
    if "name" in fields:
        fields["parts"] = ()
    return replace(weight, source=replace(leaf, **fields))


def other_rows(weight: Weight, start: int, stop: int) -> Weight:
    assert isinstance(weight.source, Pick)
    return replace(weight, source=replace(weight.source, start=start, stop=stop))


def wrong_name(model: Model) -> Model:
    return changed(
        model, O_PROJ, lambda w: other_leaf(w, name="model.layers.1.self_attn.out.weight")
    )


def wrong_dims(model: Model) -> Model:
    """In and out of the projection swapped, weight and all."""

    def turn(weight: Weight) -> Weight:
        dims = weight.spec.dims[::-1]
        return replace(other_leaf(weight, dims=dims), spec=replace(weight.spec, dims=dims))

    return changed(model, O_PROJ, turn)


def swapped_rows(model: Model) -> Model:
    """Keys get the values' rows and the values the keys'."""
    up_k, up_v = model.weights[W_UK].source, model.weights[W_UV].source
    assert isinstance(up_k, Pick)
    assert isinstance(up_v, Pick)
    nope, value = up_k.stop, up_v.stop - up_v.start
    model = changed(model, W_UK, lambda w: other_rows(w, nope, nope + value))
    return changed(model, W_UV, lambda w: other_rows(w, 0, nope))


def shifted_rows(model: Model) -> Model:
    """One row too far: of the right shape, and a row that nobody reads."""
    source = model.weights[W_UK].source
    assert isinstance(source, Pick)
    return changed(model, W_UK, lambda w: other_rows(w, 1, source.stop + 1))


def another_layers_tensor(model: Model) -> Model:
    """A tensor that exists and fits, of the wrong layer."""
    leaf = next(leaf for leaf, _ in leaves(model.weights[O_PROJ].source))
    assert isinstance(leaf, Leaf)
    name = leaf.name.replace("layers.1.", "layers.2.")
    return changed(model, O_PROJ, partial(other_leaf, name=name))


O_PROJ, W_UK, W_UV = (f"layers.1.mixer.{name}" for name in ("o_proj", "w_uk", "w_uv"))
WRONG = (wrong_name, wrong_dims, swapped_rows, shifted_rows, another_layers_tensor)


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.__name__)
def test_a_wrong_expression_fails_proof_and_run(change: Change, tiny: Tiny, seed: int) -> None:
    """The proof says so; the run refuses, or, where all shapes fit, its numbers are others."""
    checkpoint = tiny("deepseek_v3")
    read = load(str(checkpoint.folder))
    right = read_model(read).model
    wrong = change(right)
    assert prove(right, read.headers).status == "proved"
    proof = prove(wrong, read.headers)
    assert proof.status in ("incomplete", "contradicted")
    assert proof.findings
    oracle = tinies.model(checkpoint)
    ids = oracle.clear_prompt(30, seed=seed)

    def run(model: Model) -> Session:
        return open_session(model, RECIPES["fp32"], headers=read.headers, folder=Path(read.id))

    assert apart(run(right).logits(ids.tolist()), oracle.logits(ids)) <= TOLERANCE
    if change in (shifted_rows, another_layers_tensor):  # every shape fits
        assert apart(run(wrong).logits(ids.tolist()), oracle.logits(ids)) > 100 * TOLERANCE
        return
    with pytest.raises(Day0Error, match="the Graph needs"):
        run(wrong)


def test_what_the_runtime_does_itself_is_addressing() -> None:
    assert set(BUILT_IN) == {"cache_write", "take_rows"}
