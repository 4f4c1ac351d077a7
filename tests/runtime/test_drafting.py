"""Drafts of an MTP layer and of a second model: they are what the layer gives when it is computed
in one piece, they change no token, and what cannot draft is said before anything is loaded."""

import copy
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from day0.checkpoint.load import DEMO
from day0.errors import Day0Error
from day0.runtime.api import Loaded, load
from day0.runtime.drafting import open_with_drafts
from day0.runtime.limits import Sizes
from day0.runtime.opening import Opened, open_model
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from day0.runtime.speculation import SUSPICIOUS, Speculation, Tables
from day0.runtime.step import make_step
from tests import surgery
from tests import tiny as tinies
from tests.runtime import mtp_files
from tests.runtime.speculated import same

Tiny = Callable[..., tinies.TinyCheckpoint]
CPU = torch.device("cpu")
SIZES = Sizes(tokens=384, sequences=4, chunk=30)
PROMPTS = (5, 33, 12)


def opened(folder: Path | str, source: str, tokens: int = 3, layers: int | None = None) -> Opened:
    both = partial(open_model, quant="fp32", backend="reference")
    main = partial(both, layers=layers)
    return open_with_drafts(str(folder), source, tokens, main=main, other=both)


def prompts(vocab: int, seed: int) -> list[tuple[int, ...]]:
    draw = torch.Generator().manual_seed(seed)
    return [tuple(torch.randint(vocab, (n,), generator=draw).tolist()) for n in PROMPTS]


class Recorded:
    """A session's speculation, with what was proposed: (tokens so far, drafts)."""

    def __init__(self, session: Session) -> None:
        make = session.speculation
        assert make is not None
        self.made: Speculation = make()
        self.seen: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        right = self.made.propose

        def propose(requests: Sequence[Request], tables: Tables) -> list[tuple[int, ...]]:
            found = right(requests, tables)
            for request, drafts in zip(requests, found, strict=True):
                if drafts:
                    self.seen.append((tuple(request.tokens), drafts))
            return found

        self.made.propose = propose
        session.speculation = lambda: self.made


def in_one_piece(session: Session, tokens: tuple[int, ...], count: int) -> list[int]:
    """Drafts of the MTP layer behind `tokens`, every row computed anew for every draft."""
    follower = session.follower
    assert follower is not None
    hidden, drafts = session.hidden(tokens[:-1]), list[int]()
    for _ in range(count):
        ids = [*tokens[1:], *drafts]
        pages = list(range(1, -(-len(ids) // session.limits.page_size) + 1))
        step = make_step(
            "prefill", starts=[0], lengths=[len(ids)], slots=[session.limits.versions],
            tables=dict.fromkeys(session.limits.num_pages, [pages]), device=CPU,
        )  # fmt: skip
        inputs = {"next_ids": torch.tensor(ids, dtype=torch.int32), "hidden": hidden}
        found = follower.run(step, inputs)
        logits, rows = (found[name] for name in follower.lowered["prefill"].graph.outputs)
        drafts.append(int(logits[-1].argmax()))
        hidden = torch.cat((hidden, rows[-1:]))
    return drafts


def checked(one: Opened, seed: int, tokens: int = 8) -> Recorded:
    """Output as without drafts, and every draft as in one piece, but for near equals."""
    session, _ = one.session(SIZES)
    asked = prompts(one.model.spec.vocab_size, seed)
    plain = open_model(one.name, quant="fp32", backend="reference").session(SIZES)[0]
    sampling = Sampling(max_new_tokens=tokens)
    wanted = plain.generate(asked, sampling)
    recorded = Recorded(session)
    same(plain, session.generate(asked, sampling), wanted)
    fresh, _ = one.session(SIZES)
    shown = recorded.seen[:: max(len(recorded.seen) // 4, 1)]
    assert len(shown) >= 3
    right = [list(drafts) == in_one_piece(fresh, seen, len(drafts)) for seen, drafts in shown]
    assert sum(right) >= len(right) - 1
    return recorded


def test_drafts_of_the_demo_are_those_of_one_piece(seed: int) -> None:
    """Its layer has an indexer, whose open pool lies in a slot."""
    checked(opened("demo", "mtp"), seed)


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["qwen3_next", "glm5_next"])
def test_both_forms_of_the_hub(tiny: Tiny, tmp_path: Path, kind: str, seed: int) -> None:
    folder = mtp_files.add_mtp(surgery.copy(tiny(kind).folder, tmp_path / kind), kind, seed)
    recorded = checked(opened(folder, "mtp", 4), seed)
    assert sum(recorded.made.tally.drafted) > 0
    mtp_files.make_foreseeable(folder, kind)
    session, _ = opened(folder, "mtp", 4).session(SIZES)
    always = Recorded(session).made.tally
    session.generate(prompts(session.model.spec.vocab_size, seed), Sampling(max_new_tokens=8))
    assert always.accepted == always.drafted
    assert always.drafted[0] > 0


@pytest.mark.hf
def test_the_layer_is_that_of_transformers(tiny: Tiny, tmp_path: Path, seed: int) -> None:
    """The trunk's layer of the same weights, run by transformers on the joined rows."""
    checkpoint = tiny("qwen3_next")
    folder = surgery.copy(checkpoint.folder, tmp_path / "copy")
    mtp_files.add_mtp(folder, "qwen3_next", seed)
    session, _ = opened(folder, "mtp").session(SIZES)
    follower = session.follower
    assert follower is not None
    tokens = prompts(session.model.spec.vocab_size, seed)[1]
    hidden = session.hidden(tokens[:-1])

    module = copy.deepcopy(tinies.model(checkpoint).module)
    module.config.num_hidden_layers, module.config.layer_types = 1, ["full_attention"]
    module.model.layers = torch.nn.ModuleList([module.model.layers[mtp_files.LIKE]])
    stored = mtp_files.load_file(folder / mtp_files.FILE)
    form = mtp_files.FORMS["qwen3_next"]

    def normed(rows: torch.Tensor, name: str) -> torch.Tensor:
        norm = copy.deepcopy(module.model.norm)
        norm.weight.data = stored[form[name]]
        return norm(rows)

    with torch.no_grad():
        embedded = module.model.embed_tokens(torch.tensor(tokens[1:]))
        both = torch.cat((normed(embedded, "embedding"), normed(hidden, "hidden")), dim=-1)
        module.model.norm.weight.data = stored[form["out"]]
        said = module(inputs_embeds=(both @ stored[form["join"]].T)[None], use_cache=False).logits[
            0
        ]
    pages = list(range(1, 1 + -(-len(tokens) // session.limits.page_size)))
    step = make_step(
        "verify", starts=[0], lengths=[len(tokens) - 1], slots=[4],
        tables=dict.fromkeys(session.limits.num_pages, [pages]), device=CPU, all_rows=True,
    )  # fmt: skip
    inputs = {"next_ids": torch.tensor(tokens[1:], dtype=torch.int32), "hidden": hidden}
    ours = follower.run(step, inputs)[follower.logits_name]
    assert float((ours - said).abs().max() / said.abs().max()) < 1e-4


@pytest.mark.hf
def test_a_draft_that_is_never_right_is_a_warning(tiny: Tiny, tmp_path: Path, seed: int) -> None:
    """Halves of the join exchanged, as by weights of another order: output stays, it is said."""
    folder = surgery.copy(tiny("qwen3_next").folder, tmp_path / "copy")
    mtp_files.add_mtp(folder, "qwen3_next", seed)
    mtp_files.make_foreseeable(folder, "qwen3_next", embed_first=False)
    model = load(str(folder), quant="fp32", speculate="mtp", draft_tokens=3)
    jobs = model.jobs(asks(model, seed), sampling=Sampling(max_new_tokens=32), ignore_eos=True)
    serving = model.serving(jobs)
    serving.run()
    assert serving.tally is not None
    if sum(serving.tally.accepted):  # a token that follows itself is foreseen by any draft
        pytest.skip("the random model repeats itself")
    assert sum(serving.tally.drafted) >= SUSPICIOUS
    assert "none of" in serving.tally.warning


def asks(model: Loaded, seed: int) -> list:
    from day0.runtime.prompts import Ask

    return [Ask(ids=ids) for ids in prompts(model.opened.model.spec.vocab_size, seed)]


def test_a_second_model_drafts(seed: int) -> None:
    """The model itself foresees everything, greedy or sampled; another one less."""
    both = opened("demo", str(DEMO), 4)
    session, _ = both.session(SIZES)
    asked = prompts(both.model.spec.vocab_size, seed)
    plain = open_model("demo", quant="fp32", backend="reference").session(SIZES)[0]
    for temperature in (0.0, 1.0):
        sampling = Sampling(max_new_tokens=8, temperature=temperature, seed=seed % 97)
        recorded = Recorded(session)
        same(plain, session.generate(asked, sampling), plain.generate(asked, sampling))
        tally = recorded.made.tally
        assert sum(tally.accepted) >= 0.9 * sum(tally.drafted) > 0


@pytest.mark.hf
def test_another_vocabulary_is_refused(tiny: Tiny) -> None:
    with pytest.raises(Day0Error, match="a draft must share"):
        opened("demo", str(tiny("llama").folder))


@pytest.mark.parametrize("tokens", [0, 16])
def test_how_many_tokens(tokens: int) -> None:
    with pytest.raises(Day0Error, match=f"--draft-tokens is {tokens}; it must be 1 to 15"):
        opened("demo", "ngram", tokens)


@pytest.mark.hf
def test_missing_extra_and_foreign_tensors(tiny: Tiny, tmp_path: Path, seed: int) -> None:
    """Never weights that nothing initialised: what is not there or not understood is named."""
    source = tiny("qwen3_next").folder
    with pytest.raises(Day0Error, match="config.json promises none, the checkpoint holds none"):
        opened(source, "mtp")

    declared = surgery.copy(source, tmp_path / "declared")
    surgery.change_config(declared, lambda data: data.update(mtp_num_hidden_layers=1))
    with pytest.raises(Day0Error, match="config.json promises 1, the checkpoint holds none"):
        opened(declared, "mtp")

    whole = mtp_files.add_mtp(surgery.copy(source, tmp_path / "whole"), "qwen3_next", seed)
    opened(whole, "mtp")
    with pytest.raises(Day0Error, match="--layers leaves out the 1 that it has"):
        opened(whole, "mtp", layers=2)

    missing = surgery.copy(whole, tmp_path / "missing")
    name = "mtp.layers.0.self_attn.q_norm.weight"
    mtp_files.change(missing, lambda found: found.__delitem__(name))
    with pytest.raises(Day0Error, match=f"1 of its .* tensors are not in the checkpoint, {name}"):
        opened(missing, "mtp")

    extra = surgery.copy(whole, tmp_path / "extra")
    mtp_files.change(extra, lambda found: found.update({"mtp.fc.weight_codes": torch.ones(1)}))
    with pytest.raises(Day0Error, match=r"mtp\.fc\.weight_codes belongs to a tensor of the MTP"):
        opened(extra, "mtp")

    codes = surgery.copy(whole, tmp_path / "codes")  # whose scale was dropped on the way

    def narrow(found: mtp_files.Tensors) -> None:
        found["mtp.fc.weight"] = found["mtp.fc.weight"].to(torch.float8_e4m3fn)

    mtp_files.change(codes, narrow)
    with pytest.raises(Day0Error, match=r"not in the checkpoint, mtp\.fc\.weight_scale_inv"):
        opened(codes, "mtp")

    foreign = surgery.copy(whole, tmp_path / "foreign")

    def rename(found: mtp_files.Tensors) -> None:
        for old in [name for name in found if name.startswith("mtp.")]:
            found[old.replace("mtp.", "mtp.heads.a.")] = found.pop(old)

    mtp_files.change(foreign, rename)
    with pytest.raises(Day0Error, match="of a form that no mechanism knows"):
        opened(foreign, "mtp")
    assert json.loads((foreign / "config.json").read_text())["mtp_num_hidden_layers"] == 1
