"""config.json as it comes: what is taken, what is reported, what is refused."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from day0.checkpoint.config import parse_config
from day0.errors import Day0Error


def parse(text: str | bytes):
    raw = text.encode() if isinstance(text, str) else text
    return parse_config(raw, "folder/config.json", "config.json")


def outcome(raw: str | bytes):
    """What parse gives, a Day0Error returned; anything else that is raised fails the test."""
    try:
        return parse(raw)
    except Day0Error as error:
        return error


def test_an_ordinary_config_gives_no_finding():
    assert parse('{"a": 1, "b": [1.5, null], "c": {"d": "Infinity"}}') == (
        {"a": 1, "b": [1.5, None], "c": {"d": "Infinity"}},
        (),
    )


def test_case_33_bare_infinity_and_text_that_only_looks_like_it():
    config, findings = parse('{"a":Infinity,"b":-Infinity,"name":"NaNo-Infinity"}')
    assert config == {"a": math.inf, "b": -math.inf, "name": "NaNo-Infinity"}
    [finding] = findings
    assert (finding.code, finding.severity) == ("non-finite", "info")
    assert finding.evidence == ("a = inf", "b = -inf")


def test_case_34_tagged_float_is_decoded():
    config, findings = parse('{"time_step_limit":[0.0,{"__float__":"Infinity"}]}')
    assert config == {"time_step_limit": [0.0, math.inf]}
    assert [finding.evidence for finding in findings] == [("time_step_limit[1] = inf",)]


def test_nan_and_a_number_beyond_double_precision():
    config, findings = parse('{"deep": {"x": NaN}, "big": 1e999}')
    assert math.isnan(config["deep"]["x"])
    assert findings[0].evidence == ("deep.x = nan", "big = inf")


@pytest.mark.parametrize(
    "tagged",
    ['{"__float__": "1.5"}', '{"__float__": 1}', '{"__float__": "NaN", "b": 1}'],
)
def test_other_objects_with_the_tags_key_stay_as_they_are(tagged: str):
    config, findings = parse(f'{{"a": {tagged}}}')
    assert config["a"] == json.loads(tagged)
    assert findings == ()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "folder/config.json is empty; a JSON object is expected"),
        (b" \n", "folder/config.json is empty; a JSON object is expected"),
        (b"hello", "folder/config.json is not JSON (Expecting value: line 1 column 1 (char 0))"),
        (b'{"a": 1,}', "folder/config.json is not JSON ("),
        (b'{"a": Infinit}', "folder/config.json is not JSON ("),
        (b"[1]", "folder/config.json holds an array; an object is expected"),
        (b"null", "folder/config.json holds null; an object is expected"),
        (b"NaN", "folder/config.json holds a number; an object is expected"),
        (b'\xef\xbb\xbf{"a": 1}', "starts with a UTF-8 byte order mark; plain UTF-8 is expected"),
        (b'{"a": "\xe4"}', "is not UTF-8 (byte 0xe4 at 7); a JSON object in UTF-8 is expected"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8 (byte 0xff at 0)"),
        (b'{"a":' * 50_000, "is nested too deeply to be read; a JSON object is expected"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is not JSON ("),
        (
            b"version https://git-lfs.github.com/spec/v1\nsize 1234\n",
            "is a git-lfs pointer, real size 1,234 bytes - not downloaded",
        ),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_refused(raw: bytes, words: str):
    with pytest.raises(Day0Error) as caught:
        parse(raw)
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_a_key_stated_twice_is_reported_and_the_last_value_counts():
    config, findings = parse('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}')
    assert config == {"a": 3, "b": {"c": 2}}
    [finding] = findings
    assert (finding.code, finding.severity) == ("duplicate-key", "warning")
    assert set(finding.evidence) == {"a", "c"}


def test_auto_map_is_reported_wherever_it_stands():
    _, findings = parse(
        '{"auto_map": {"AutoModel": "modeling_x.X"}, "text_config": {"auto_map": {"A": "m.B"}}}'
    )
    [finding] = findings
    assert (finding.code, finding.severity) == ("remote-code", "info")
    assert "never executed" in finding.message
    assert finding.evidence == ("auto_map.AutoModel: modeling_x.X", "text_config.auto_map.A: m.B")


def test_nesting_deeper_than_python_may_recurse():
    depth = 5000
    raw = b'{"a":' * depth + b"Infinity" + b"}" * depth
    result = outcome(raw)  # which of the two it is depends on the Python release
    if isinstance(result, Day0Error):
        assert "nested too deeply" in result.message
    else:
        assert [finding.code for finding in result[1]] == ["non-finite"]


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text('{}[]":,ainfINFtyNa0-9. \\u', max_size=40))
def test_fuzz_any_text(raw: bytes | str):
    result = outcome(raw)
    if isinstance(result, Day0Error):
        assert "\n" not in result.message
    else:
        assert isinstance(result[0], dict)


def test_published_configs_and_sidecars_raise_no_warning(corpus: Path):
    paths = [*(corpus / "configs").glob("*.json"), *(corpus / "quant_sidecars").glob("*.json")]
    assert len(paths) > 100
    for path in paths:
        _, findings = parse_config(path.read_bytes(), str(path), path.name)
        assert {finding.severity for finding in findings} <= {"info"}, path.name
