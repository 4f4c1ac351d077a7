"""What goes wrong: two lines, the right exit code, nothing half-written, no work lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import day0
from day0.checkpoint.load import DEMO
from day0.errors import Day0Error
from day0.runtime.engine import Engine
from day0.runtime.opening import open_model
from day0.runtime.session import Sizes
from tests.checkpoint.asking import leftovers
from tests.checkpoint.hub_server import Hub
from tests.corpus import ROOT
from tests.runtime.commands import Command, Done, change_weights, command, demo_copy
from tests.surgery import change_config
from tests.tiny import rename

__all__ = ["command"]
SHORT = ("--max-new-tokens", "2", "--device", "cpu")


def refused(done: Done, code: int, words: str) -> None:
    """The command ended with two lines that say `words`, and no output."""
    assert done.code == code, done
    assert done.out == ""
    assert done.complaint[0].startswith("error: ")
    assert words in done.complaint[0]
    assert done.complaint[1].startswith("hint: ")
    assert len(done.complaint) == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return demo_copy(tmp_path / "demo")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--prompt", "abcdef", "--max-context", "7"], 3, "--max-context gives the cache 7"),
        (["--input-len", "131071"], 3, "make 131,073; the model states 131,072"),
        (["--prompt", ""], 2, "the prompt is empty"),
        (["--prompt", "a", "--prompt", ""], 2, "the prompt is empty"),
        (["--quant", "fp7"], 2, "--quant is 'fp7'"),
        (
            ["--without", "choose"],
            2,
            "passes that may be left out are layout, narrow, two_phase, fuse",
        ),
        (["--backend", "cuda"], 2, "it must be one of auto, reference"),
        (["--device", "tpu"], 2, "--device is 'tpu'; here it may be auto, cpu"),
        (["--device", "cuda:99"], 2, "--device is 'cuda:99'"),
        (["--format", "md"], 2, "it must be one of human, json"),
        (["--prompt", "a", "--input-len", "3"], 2, "--prompt and --input-len are given"),
        (["--layers", "9"], 2, "--layers is 9; it must be 1 to 8"),
        (["--temperature", "-1"], 2, "temperature is -1"),
        (["--top-p", "2"], 2, "top_p is 2"),
        (["--max-new-tokens", "0"], 2, "max_new_tokens is 0"),
        (["--prompt-file", "not/there"], 2, "--prompt-file not/there cannot be read: No such"),
        (["--prompts", "not/there"], 2, "--prompts not/there cannot be read: No such"),
        (["--facts", "not/there"], 2, "--facts not/there cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options(command: Command, options: list[str], code: int, words: str) -> None:
    refused(command("run", "demo", *SHORT, *options), code, words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "no JSON"),
        ("[1, 2]", "a list; it must be an object"),
        ("{}", "with none of prompt, ids, messages"),
        ('{"prompt": "a", "ids": [1]}', "with prompt and ids of"),
        ('{"prompt": 7}', "with prompt that is not a text"),
        ('{"ids": [1, true]}', "with ids that is not a list of whole numbers"),
        ('{"messages": [{"content": "a"}]}', "with messages that is not a list of"),
        ('{"prompt": "a", "max_tokens": 3}', "with 'max_tokens'; allowed are"),
        ('{"prompt": "a", "seed": 1.5}', "with seed 1.5; it must be a whole number"),
        ('{"prompt": "a", "top_k": true}', "with top_k True; it must be a whole number"),
        ('{"prompt": "a", "stop": [1]}', "with stop [1]; it must be a text or a list of texts"),
        ('{"ids": []}', "is empty"),
    ],
)
def test_lines_of_a_file(command: Command, tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "asks.jsonl"
    file.write_text(f'{{"prompt": "fine"}}\n\n{line}\n')
    done = command("run", "demo", "--prompts", file, *SHORT)
    refused(done, 2, words)
    assert f"{file}:3" in done.complaint[0]


def test_files_without_a_request(command: Command, tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    empty.write_text("\n")
    binary.write_bytes(b"\xff\xfe")
    refused(command("run", "--prompts", empty, *SHORT), 2, "holds no request")
    refused(command("run", "--prompt-file", empty.with_name("demo"), *SHORT), 2, "cannot be read")
    refused(command("run", "--prompt-file", binary, *SHORT), 2, "it is not UTF-8")


def test_without_a_tokenizer_text_is_refused_and_ids_work(command: Command, folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    for options in (["--prompt", "a"], [], ["--input-len", "3", "--stop", "x"]):
        refused(command("run", folder, *SHORT, *options), 2, "has no tokenizer.json")
    done = command("run", folder, "--input-len", "3", "--format", "json", *SHORT)
    assert done.code == 0
    assert done.data["outputs"][0]["text"] is None
    assert len(done.data["outputs"][0]["ids"]) == 2
    human = command("run", folder, "--input-len", "3", *SHORT)
    assert " ".join(map(str, done.data["outputs"][0]["ids"])) in human.out


def test_a_damaged_tokenizer(command: Command, folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 7')
    refused(command("run", folder, *SHORT), 2, "is no tokenizer")


def damage_vanish(path: Path) -> None:
    path.unlink()


def damage_truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def damage_header(path: Path) -> None:
    path.write_bytes(b"\x08\0\0\0\0\0\0\0garbage!" + path.read_bytes()[16:])


def damage_shape(path: Path) -> None:
    change_weights(
        path.parent,
        lambda tensors: tensors.update({"model.norm.weight": torch.zeros(7)}),
    )


def damage_lost_tensor(path: Path) -> None:
    change_weights(path.parent, lambda tensors: tensors.__delitem__("model.norm.weight"))


@pytest.mark.parametrize(
    "damage",
    [damage_vanish, damage_truncate, damage_header, damage_shape, damage_lost_tensor],
    ids=lambda damage: damage.__name__.removeprefix("damage_"),
)
def test_a_shard_that_changes_before_its_weights_are_read(folder: Path, damage) -> None:
    opened = open_model(str(folder), device="cpu")
    damage(folder / "model.safetensors")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(Day0Error) as caught:
        opened.session(Sizes())
    assert caught.value.exit_code == 2
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_checkpoint_without_weights(command: Command, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(command("run", folder, *SHORT), 2, "has no safetensors weights")
    assert command("run", folder, "--dummy", *SHORT).code in (0, 4)


def test_a_catalog_entry_has_no_weights(command: Command) -> None:
    done = command("run", "catalog:qwen--qwen2-0.5b", *SHORT)
    refused(done, 2, "is a description without weights")
    assert "--dummy" in done.complaint[1]


def test_an_operator_that_nobody_wrote(command: Command, folder: Path) -> None:
    def strange(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if ".layers.0.self_attn." in name]:
            tensors[name.replace(".self_attn.", ".wave.w_")] = tensors.pop(name)

    change_weights(folder, strange)
    done = command("run", folder, *SHORT)
    refused(done, 4, "no implementation runs unknown")
    assert "day0 scaffold" in done.complaint[1]


def test_a_guess_that_decides_is_not_run(command: Command, folder: Path, tmp_path: Path) -> None:
    change_config(folder, lambda config: config.pop("attn_res_block_size"))
    done = command("run", folder, *SHORT)
    assert done.code == 4
    assert "attn_residual.block_size" in done.complaint[0]
    yaml = "\n".join(done.complaint[2:])
    assert yaml == "attn_residual.block_size: 12"
    facts = tmp_path / "facts.yaml"
    facts.write_text(yaml.replace("12", "4"))
    asked = ("--facts", facts, "--format", "json", *SHORT)
    told = command("run", folder, *asked)
    known = command("run", "demo", "--format", "json", *SHORT)
    assert told.data["outputs"] == known.data["outputs"]


@pytest.mark.hf
def test_the_printed_facts_are_read_again(command: Command, tiny, tmp_path: Path) -> None:
    """Numbers such as 1e-06, which YAML takes for a text, among them."""
    folder = rename(tiny("deepseek_v3"), tmp_path / "renamed").folder
    load = ("run", folder, "--input-len", "9", *SHORT)
    done = command(*load)
    assert done.code == 4
    assert "mla.latent_norm_eps" in done.complaint[0]
    facts = tmp_path / "facts.yaml"
    facts.write_text("\n".join(done.complaint[2:]))
    assert command(*load, "--facts", facts).code == 0


def test_an_output_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    done = command("run", *SHORT, "--out", tmp_path / "file" / "run.json", "--format", "json")
    refused(done, 2, "cannot be written")
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("form", ["json", "human"])
def test_an_interruption_prints_what_was_done(
    command: Command, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    step, steps = Engine.step, []

    def interrupted(self: Engine) -> list:
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(Engine, "step", interrupted)
    done = command("run", "--prompt", "a", "--prompt", "b", "--format", form,
                   "--max-new-tokens", "9", "--ignore-eos")  # fmt: skip
    assert done.code == 130
    assert done.complaint[0] == "error: interrupted after 0 of 2 requests, 6 tokens"
    assert done.complaint[1].startswith("hint: ")
    if form == "human":
        assert done.out.count("(cancelled)") == 2
        return
    assert done.data["interrupted"] is True
    assert [len(output["ids"]) for output in done.data["outputs"]] == [3, 3]
    assert {output["finish_reason"] for output in done.data["outputs"]} == {"cancelled"}
    assert done.data["metrics"]["completed"] == 0


def test_an_interruption_while_loading(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("day0.runtime.opening.open_session", interrupted)
    refused(command("run", *SHORT), 130, "interrupted while demo was being loaded")


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "kernels")))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def test_ctrl_c_of_a_real_process(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    command = [sys.executable, "-m", "day0", "run", "--max-new-tokens", "100000", "--ignore-eos"]
    watched = subprocess.Popen(
        command,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that starts the tests in the background has SIGINT ignored below it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert watched.stdout is not None
    first = watched.stdout.read(8)
    watched.send_signal(signal.SIGINT)
    rest, complaint = watched.communicate(timeout=30)
    assert watched.returncode == 130, complaint
    assert b"tpot_ms" in first + rest
    lines = [line for line in complaint.decode().splitlines() if not line.startswith("note: ")]
    assert len(lines) == 2
    assert lines[0].startswith("error: interrupted after 0 of 1 requests, ")
    assert not out.exists()


def test_two_processes_share_a_cache(command: Command, tmp_path: Path) -> None:
    """Both fetch headers, weights and tokenizer of one hub id at once, and both are right."""
    cache = tmp_path / "cache"
    files = {path.name: path.read_bytes() for path in DEMO.iterdir() if path.suffix != ".py"}
    with Hub(files) as hub:
        line = [sys.executable, "-m", "day0", "run", "org/name", "--prompt", "Hello",
                "--format", "json", "--cache-dir", str(cache), *SHORT]  # fmt: skip
        both = [
            subprocess.Popen(
                line,
                env=environment(HF_ENDPOINT=hub.url),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    first, second = (json.loads(out)["outputs"] for out, _ in ends)
    want = command("run", "demo", "--prompt", "Hello", "--format", "json", *SHORT)
    assert first == second == want.data["outputs"]
    assert not list(cache.rglob("*.incomplete"))
    assert leftovers(cache) == []


def test_a_refusal_comes_before_the_download(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of a hub id are fetched only once the model is known to run."""

    def fetched(*arguments: object, **options: object) -> None:
        raise AssertionError("weights were fetched")

    monkeypatch.setattr("day0.runtime.opening.weights_folder", fetched)
    change_config(demo_copy(tmp_path / "demo"), lambda config: config.pop("attn_res_block_size"))
    assert command("run", tmp_path / "demo", *SHORT).code == 4


def test_what_was_loaded_survives_a_refusal() -> None:
    """An error of one request leaves the model fit for the next."""
    loaded = day0.load("demo", device="cpu", max_context=64)
    want = loaded.generate("abc", max_new_tokens=3)[0].ids
    start = time.monotonic()
    with pytest.raises(Day0Error):
        loaded.generate([[1] * 5000])
    assert time.monotonic() - start < 5
    assert loaded.generate("abc", max_new_tokens=3)[0].ids == want
