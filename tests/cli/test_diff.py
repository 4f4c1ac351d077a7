"""day0 diff: words, JSON and exit codes."""

import json
import sys

import pytest

from day0.cli.app import main

K3 = "catalog:moonshotai--kimi-k3"
LINEAR = "catalog:moonshotai--kimi-linear-48b-a3b-instruct"
TWINS = ("catalog:zai-org--glm-5.3-fp8", "catalog:zai-org--glm-5.2-fp8")


def called(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["day0", "diff", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_words_and_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(K3, LINEAR, monkeypatch=monkeypatch) == 0
    text = capsys.readouterr().out
    assert "meaning   attention residual instead of plain residual" in text
    assert "meaning   latent MoE" in text
    (line,) = [line for line in text.splitlines() if line.startswith("kv bytes per token")]
    assert line.split()[-2:] == ["27,648", "8,064"]
    assert "operators that only A has" in text


def test_json_and_strict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(K3, LINEAR, "--format", "json", "--strict", monkeypatch=monkeypatch) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "day0.diff/1"
    assert (data["identical"], data["same_graph"]) == (False, False)
    assert len(data["differences"]) == 7
    assert data["figures"]["kv_bytes_per_token"] == {"a": 27_648, "b": 8_064}
    assert any("decay=bounded" in text for text in data["operators"]["only_a"])
    assert any("decay=softplus" in text for text in data["operators"]["only_b"])
    assert called(*TWINS, "--format", "json", "--strict", monkeypatch=monkeypatch) == 0
    same = json.loads(capsys.readouterr().out)
    assert (same["identical"], same["distance"], same["differences"]) == (True, 0, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((K3, "catalog:nothing-like-it"), "the catalog has no 'nothing-like-it'"),
        ((K3, LINEAR, "--format", "yaml"), "--format is 'yaml'; it must be one of human, json"),
    ],
)
def test_what_the_user_can_mend(
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called(*arguments, monkeypatch=monkeypatch) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert words in error
    assert hint.startswith("hint: ")
