"""Tokenizers, growing text, stop strings, chat templates and end ids."""

import json
import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from day0.checkpoint.load import DEMO
from day0.errors import Day0Error
from day0.runtime.text import Growing, Stops, Text, stop_ids

SAMPLE = "Grüße aus 東京 🚀👩‍👩‍👧 — naïve café, e\u0301, \U0001f1e9\U0001f1ea!"


@pytest.fixture(scope="module")
def demo() -> Text:
    return Text.read(DEMO)


def with_byte_fallback() -> Text:
    """A tokenizer of the sentencepiece kind: words with a space mark, bytes for the rest."""
    words = {"<unk>": 0, **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)}}
    for word in ("▁", "H", "i", "▁there"):
        words[word] = len(words)
    tokenizer = Tokenizer(models.BPE(words, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return Text(tokenizer)


def pieces(text: Text, ids: list[int]) -> list[str]:
    growing = Growing(text)
    return [*(growing.push(token) for token in ids), growing.finish()]


@pytest.mark.parametrize("kind", ["bytes", "fallback"])
def test_text_grows_to_the_whole_without_broken_characters(demo: Text, kind: str) -> None:
    text = demo if kind == "bytes" else with_byte_fallback()
    ids = list(text.encode(SAMPLE))
    seen = pieces(text, ids)
    assert "".join(seen) == text.decode(ids) == SAMPLE
    assert not any("\ufffd" in piece for piece in seen)
    assert sum(bool(piece) for piece in seen) > 20


def test_a_space_between_words_is_kept() -> None:
    text = with_byte_fallback()
    ids = [text.id_of(word) for word in ("H", "i", "▁there", "▁there")]
    assert "".join(pieces(text, ids)) == "Hi there there"  # type: ignore[arg-type]


def test_any_bytes_grow_to_what_all_of_them_are(demo: Text, seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(200):
        ids = [draw.choice((draw.randrange(256), draw.randrange(0x80, 256))) for _ in range(24)]
        seen = pieces(demo, ids)
        assert "".join(seen) == demo.decode(ids)


@pytest.mark.parametrize(
    ("stops", "given", "shown", "stopped"),
    [
        (["END"], ["abcE", "N", "Dxyz"], "abc", True),
        (["END"], ["abcE", "Nd"], "abcENd", False),
        (["b", "ab"], ["xab"], "x", True),
        (["aab"], ["aa", "a", "b!"], "a", True),
        ([], ["anything"], "anything", False),
        (["zz"], ["z"], "z", False),
    ],
    ids=["across-pieces", "almost", "earliest", "overlapping", "none", "held-to-the-end"],
)
def test_stop_strings(stops: list[str], given: list[str], shown: str, stopped: bool) -> None:
    watch, out = Stops(stops), ""
    for piece in given:
        part, ended = watch.push(piece)
        out += part
        if ended:
            break
    else:
        out, ended = out + watch.finish(), False
    assert (out, ended) == (shown, stopped)


def test_the_demo_template_opens_an_answer(demo: Text) -> None:
    ids = demo.encode_chat([{"role": "user", "content": "Hi"}])
    names = ("<|begin|>", "<|user|>", "<|end|>", "<|assistant|>")
    begin, user, end, answer = (demo.id_of(name) for name in names)
    assert ids == (begin, user, *demo.encode("Hi")[-2:], end, answer)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% for m in messages %}{% generation %}{{ m['content'] }}{% endgeneration %}"
         "{% endfor %}", "Hi"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hi"}]'),
        ("{% for m in messages %}\n{{ m.role }}\n    {% break %}\n{% endfor %}", "user\n"),
    ],
    ids=["generation", "tojson", "trimmed"],
)  # fmt: skip
def test_templates_of_the_hub(demo: Text, template: str, expected: str) -> None:
    text = Text(demo._tokenizer, template=template)
    assert demo.decode(text.encode_chat([{"role": "user", "content": "Hi"}])) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{% if %}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages[7]['content'] }}",
        "{{ messages.append(1) }}",
    ],
    ids=["refuses", "broken", "escapes", "out-of-range", "changes"],
)
def test_a_template_that_fails_is_an_error(demo: Text, template: str) -> None:
    with pytest.raises(Day0Error, match="chat template refuses"):
        Text(demo._tokenizer, template=template).encode_chat([{"role": "user", "content": "Hi"}])


def test_without_a_template_messages_are_refused() -> None:
    with pytest.raises(Day0Error, match="no chat template"):
        with_byte_fallback().encode_chat([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    ("file", "config"),
    [
        ("from file", {"chat_template": "from config"}),
        (None, {"chat_template": [{"name": "default", "template": "from config"},
                                  {"name": "tool_use", "template": "other"}]}),
    ],
    ids=["file", "named"],
)  # fmt: skip
def test_where_the_template_stands(tmp_path: Path, file: str | None, config: dict) -> None:
    (tmp_path / "tokenizer.json").write_bytes((DEMO / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    if file is not None:
        (tmp_path / "chat_template.jinja").write_text(file)
    assert Text.read(tmp_path).template == (file or "from config")


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        ({"eos_token_id": [7, 8]}, {"eos_token_id": 3}, (7, 8)),
        ({}, {"eos_token_id": 3}, (3,)),
        (None, {"text_config": {"eos_token_id": 5}}, (5,)),
        ({"eos_token_id": None}, {"eos_token_id": [True, -1]}, (257,)),
    ],
    ids=["generation", "config", "nested", "tokenizer"],
)
def test_end_ids(demo: Text, generation: dict | None, config: dict, expected: tuple) -> None:
    assert stop_ids(generation, config, demo) == expected


def test_no_end_id_at_all() -> None:
    assert stop_ids(None, {}, None) == ()
