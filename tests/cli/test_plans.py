"""--plan of analyze: which plans the terminal shows, and what the JSON always has."""

import json
import sys

import pytest

from day0.cli.app import main
from day0.report.plans import PLANS

K3 = "catalog:moonshotai--kimi-k3"


def called(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["day0", "analyze", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("names", [["nearest"], ["all"]])
def test_the_plans_that_are_asked_for(
    names: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [word for name in names for word in ("--plan", name)]
    assert called(K3, *asked, monkeypatch=monkeypatch) == 0
    text = capsys.readouterr().out
    shown = [line.removeprefix("Plan: ") for line in text.splitlines() if line.startswith("Plan:")]
    assert shown == (list(PLANS) if names == ["all"] else names)
    assert "planned for 8 x h200" in text.splitlines()[0]
    assert "Findings" not in text


def test_json_has_all_whatever_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("demo", "--plan", "nearest", "--format", "json", monkeypatch=monkeypatch) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(PLANS) <= set(data)


@pytest.mark.parametrize(
    ("arguments", "words", "hint"),
    [
        (("--plan", "nearst"), "--plan is 'nearst'; it must be one of nearest", "--plan nearest"),
        (("--gpu", "h300"), "--gpu is 'h300'; it must be one of a100", "--gpu h200"),
        (("--num-gpus", "0"), "--num-gpus is 0; it must be 1 to 1024", "--num-gpus 8"),
    ],
)
def test_what_the_user_can_mend(
    arguments: tuple[str, ...],
    words: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called("demo", *arguments, monkeypatch=monkeypatch) == 2
    error, told = capsys.readouterr().err.splitlines()
    assert words in error
    assert hint in told
