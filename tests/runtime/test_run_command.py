"""`day0 run`: forms of input, JSON, streaming and the view of a terminal."""

import json
import re
from pathlib import Path

import pytest

import day0
from tests.runtime.commands import Command, command

__all__ = ["command"]
QUIET = ("--max-new-tokens", "4", "--format", "json", "--device", "cpu")
FIGURES = ("duration", "completed", "request_throughput", "output_throughput",
           "total_token_throughput", "peak_output_throughput", "ttft_ms", "tpot_ms", "itl_ms",
           "cold_ttft_ms", "warm_ttft_ms", "cold_tpot_ms", "warm_tpot_ms", "load_s", "compile_s",
           "graph_capture_s", "jit_compiles_after_ready", "peak_memory_bytes",
           "launches_per_layer", "decode_floor_ms", "decode_floor_share")  # fmt: skip
SPREADS = tuple(
    f"{word}_{name}"
    for word in ("mean", "median", "p90", "p99")
    for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms")
)


def test_the_schema(command: Command) -> None:
    done = command("run", "--prompt", "Hello", *QUIET)
    data = done.data
    assert done.code == 0
    assert done.complaint == ()
    assert data["schema"] == "day0.run/1"
    (output,) = data["outputs"]
    assert output["prompt"] == "Hello"
    assert len(output["ids"]) == 4
    assert output["finish_reason"] == "length"
    assert set(FIGURES) | set(SPREADS) <= set(data["metrics"])
    assert data["metrics"]["jit_compiles_after_ready"] == 0
    assert data["metrics"]["peak_memory_bytes"] > 10**7
    assert {entry["impl"] for entry in data["implementations"]} == {"reference"}
    assert set(data["formulas"]) >= {"ttft_ms", "tpot_ms", "itl_ms"}
    assert any("noise" in note for note in done.notes)


def test_the_figures_fit_together(command: Command) -> None:
    metrics = command("run", "--prompt", "ab", "--prompt", "c", *QUIET).data["metrics"]
    assert metrics["total_output_tokens"] == 8
    assert metrics["total_input_tokens"] == 3
    assert metrics["output_throughput"] * metrics["duration"] == pytest.approx(8)
    for tpot, gaps in zip(metrics["tpot_ms"], metrics["itl_ms"], strict=True):
        assert tpot == pytest.approx(sum(gaps) / 3)
    assert metrics["warm_ttft_ms"] is None


def test_a_made_up_load_has_a_cold_request_before_it(command: Command) -> None:
    data = command("run", "demo", "--input-len", "20", "--batch", "3", *QUIET).data
    assert [len(output["prompt_ids"]) for output in data["outputs"]] == [20, 20, 20]
    assert len({tuple(output["prompt_ids"][:1]) for output in data["outputs"]}) == 3
    assert {output["finish_reason"] for output in data["outputs"]} == {"length"}
    metrics = data["metrics"]
    assert metrics["completed"] == 3
    assert metrics["warm_ttft_ms"] == pytest.approx(metrics["median_ttft_ms"])
    assert metrics["cold_ttft_ms"] not in metrics["ttft_ms"]


def test_lines_of_a_file_have_their_own_sampling(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "asks.jsonl"
    file.write_text(
        "\n".join(
            json.dumps(ask)
            for ask in (
                {"prompt": "Hi", "max_new_tokens": 2},
                {"ids": [72, 105], "seed": 5, "temperature": 1.5, "top_k": 40, "top_p": 0.9},
                {"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": True},
            )
        )
        + "\n\n"
    )
    # fp32: in bf16 a row's last bits depend on the batch it is in, and draws on the last bits
    outputs = command("run", "--prompts", file, "--quant", "fp32", *QUIET).data["outputs"]
    loaded = day0.load("demo", "fp32", device="cpu", max_context=64)
    first = loaded.generate("Hi", max_new_tokens=2)[0]
    second = loaded.generate(
        [72, 105], max_new_tokens=4, seed=5, temperature=1.5, top_k=40, top_p=0.9
    )[0]
    assert outputs[0]["ids"] == list(first.ids)
    assert outputs[1]["ids"] == list(second.ids)
    assert len(outputs[2]["prompt_ids"]) == 6  # begin, user, two bytes, end, assistant
    chat = command(
        "run", "--chat", "--prompt", "Hi", "--ignore-eos", "--quant", "fp32", *QUIET
    ).data["outputs"]
    assert chat[0]["ids"] == outputs[2]["ids"]
    assert chat[0]["prompt"] == "Hi"


def test_a_file_is_a_prompt(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Grüße\n", encoding="utf-8")
    (output,) = command("run", "--prompt-file", file, *QUIET).data["outputs"]
    assert output["prompt"] == "Grüße\n"
    assert output["prompt_ids"] == list("Grüße\n".encode())


def test_the_terminal_shows_text_figures_and_implementations(command: Command) -> None:
    done = command("run", "demo", "--max-new-tokens", "8", "--device", "cpu")
    (output,) = day0.load("demo", device="cpu").generate("Once upon a time", max_new_tokens=8)
    from day0.cli.run_view import shown

    assert output.text
    assert done.out.startswith(f"{shown(output.text)}\n\ndemo: 8 layers")
    assert "tpot_ms" in done.out
    # convolutions, recurrence and gated norm: taps in bf16, decays and states in fp32
    assert re.search(r"^kda_step +reference +bf16, fp32 +6$", done.out, re.MULTILINE)
    assert not any("\ufffd" not in line and not line.isprintable() for line in done.out.split("\n"))


def test_formats_stand_beside_what_runs_them(command: Command) -> None:
    """Without a GPU a narrow format is emulated, and the table says so."""
    data = command("run", "--quant", "fp8", "--prompt", "Hello", *QUIET).data
    formats = {entry["family"]: entry["formats"] for entry in data["implementations"]}
    assert formats["experts"] == ["fp8_b128 emulated"]
    assert formats["sparse_mla"] == ["bf16", "fp8_t128 emulated"]
    assert formats["moe_route"] == []
    assert {tuple(entry["formats"]) for entry in data["implementations"]
            if entry["family"] == "linear"} >= {("bf16",), ("fp8_b128 emulated",)}  # fmt: skip


def test_several_texts_are_numbered(command: Command) -> None:
    done = command("run", "--prompt", "a", "--prompt", "b", "--max-new-tokens", "2")
    assert [line[:4] for line in done.out.splitlines()[:2]] == ["[0] ", "[1] "]


def test_a_report_goes_to_a_file_whole(command: Command, tmp_path: Path) -> None:
    for form, file in (("json", tmp_path / "run.json"), ("human", tmp_path / "new" / "run.txt")):
        done = command("run", "--max-new-tokens", "2", "--format", form, "--out", file)
        assert (done.code, done.out) == (0, "")
    assert json.loads((tmp_path / "run.json").read_text())["schema"] == "day0.run/1"
    assert "total_token_throughput" in (tmp_path / "new" / "run.txt").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "run.json"]


def test_a_stop_text(command: Command) -> None:
    long = ("--max-new-tokens", "12", "--ignore-eos", "--format", "json", "--device", "cpu")
    whole = command("run", *long).data["outputs"][0]["text"]
    (cut,) = command("run", "--stop", whole[2:4], *long).data["outputs"]
    assert cut["text"] == whole[: whole.find(whole[2:4])]
    assert cut["finish_reason"] == "stop"


def test_dummy_weights_follow_the_seed(command: Command) -> None:
    def ids(seed: int) -> list[int]:
        run = command("run", "--dummy", "--seed", str(seed), "--ignore-eos", *QUIET)
        assert any("made up" in note for note in run.notes)
        return run.data["outputs"][0]["ids"]

    assert ids(1) == ids(1) != ids(2)


@pytest.mark.slow
def test_a_catalog_entry_runs_on_made_up_weights(command: Command) -> None:
    done = command("run", "catalog:qwen--qwen2-0.5b", "--dummy", "--layers", "1",
                   "--input-len", "3", *QUIET)  # fmt: skip
    assert done.code == 0
    assert done.data["model"]["layers"] == 1
    assert done.data["outputs"][0]["text"] is None
    assert len(done.data["outputs"][0]["ids"]) == 4
