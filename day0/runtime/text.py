"""Text to ids and back: tokenizer.json, chat templates, and text that grows id by id."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from day0.checkpoint.config import parse_config
from day0.errors import Day0Error
from day0.runtime.chat import Message, render

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")
NO_TEXT = 'ids work without: --prompts FILE.jsonl with {"ids": [1, 2]}, or --input-len 32'
# What decoders put where bytes are no character (yet), and how many bytes one waits with at most.
REPLACEMENT = "\ufffd"
LONGEST_WAIT = 3


class Text:
    """A checkpoint's tokenizer and its chat template ("" where there is none)."""

    def __init__(
        self, tokenizer: Tokenizer, *, template: str = "", special: Mapping[str, str] | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self.template = template
        self.special = dict(special or {})

    @classmethod
    def read(cls, folder: Path) -> "Text":
        """The tokenizer of a checkpoint's folder; Day0Error where it has none or a damaged one."""
        path = folder / TOKENIZER
        if not path.is_file():
            raise no_tokenizer(str(folder))
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        # tokenizers raises plain Exception for what it cannot parse.
        except Exception as error:  # noqa: BLE001
            raise Day0Error(
                f"{path} is no tokenizer that `tokenizers` reads: {' '.join(str(error).split())}",
                hint=NO_TEXT,
            ) from error
        config = _config(folder / TOKENIZER_CONFIG)
        return cls(tokenizer, template=_template(folder, config), special=_special(config))

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text, with what the tokenizer puts around one (a begin token)."""
        return tuple(self._tokenizer.encode(text).ids)

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Ids of messages in the model's template, up to where its answer begins. Day0Error where
        there is no template, or where it refuses these messages."""
        if not self.template:
            raise Day0Error(
                "the tokenizer has no chat template, which messages need",
                hint="give the text as it stands: --prompt TEXT",
            )
        text = render(self.template, messages, self.special)
        # The template has written the special tokens itself.
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Id of every token, added ones included."""
        return self._tokenizer.get_vocab()

    def id_of(self, token: str) -> int | None:
        """The id of a token as it is spelled, None when there is no such."""
        return self._tokenizer.token_to_id(token)


class Growing:
    """The text of ids that come one by one. A character whose bytes are not all there waits.

    Pieces join to the text of all ids. Only a window of ids is decoded anew: those since the last
    piece, and that piece's own, which tell whether a space stands between.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._window: list[int] = []
        self._fresh = 0  # ids of the window since the last piece
        self._given = 0  # characters of the window that are out

    def push(self, token: int) -> str:
        """What one more id makes readable, often nothing."""
        self._window.append(token)
        self._fresh += 1
        text = self._text.decode(self._window)
        waiting = len(text) - len(text.rstrip(REPLACEMENT))
        if waiting and self._fresh <= LONGEST_WAIT:
            # Decoders with bytes as tokens of their own spoil whole characters before, too.
            return ""
        piece = self._give(text[: len(text) - min(waiting, LONGEST_WAIT)])
        if piece and not waiting:
            self._shorten()
        return piece

    def finish(self) -> str:
        """The rest, with a replacement character for bytes that never became one."""
        return self._give(self._text.decode(self._window))

    def _give(self, text: str) -> str:
        piece = text[self._given :]
        self._given = max(self._given, len(text))
        return piece

    def _shorten(self) -> None:
        last = self._window[-self._fresh :]
        self._fresh = 0
        seen = self._text.decode(last)
        if seen:
            self._window, self._given = last, len(seen)


class Stops:
    """Watches a growing text for stop strings, which do not belong to it."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """(text that can be shown, whether a stop string ended it). What may be the beginning of
        a stop string is held back."""
        text = self._held + piece
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)], True
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], False

    def finish(self) -> str:
        """What was held back and turned out to be no stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[len(text) - length :]):
            return length
    return 0


def no_tokenizer(model: str) -> Day0Error:
    """Text was given, and nothing can turn it into ids."""
    return Day0Error(f"{model} has no {TOKENIZER}, which text needs", hint=NO_TEXT)


def stop_ids(
    generation_config: Mapping[str, Any] | None, config: Mapping[str, Any], text: Text | None
) -> tuple[int, ...]:
    """Ids that end a sequence: generation_config's, else config's (its own or its text model's),
    else the tokenizer's end token."""
    nested = [value for value in config.values() if isinstance(value, Mapping)]
    for place in (generation_config or {}, config, *nested):
        found = place.get("eos_token_id")
        ids = found if isinstance(found, list | tuple) else (found,)
        whole = tuple(i for i in ids if isinstance(i, int) and not isinstance(i, bool) and i >= 0)
        if whole:
            return whole
    if text is not None and (end := text.id_of(text.special.get("eos_token", ""))) is not None:
        return (end,)
    return ()


def _config(path: Path) -> Mapping[str, Any]:
    """By the parser that reads it for an analysis; nothing where there is no such file."""
    if not path.is_file():
        return {}
    config, _ = parse_config(path.read_bytes(), str(path), path.name)
    return config


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    """Spelling of special tokens, which stand as text or as {"content": text}."""
    found = {}
    for name in SPECIAL:
        value = config.get(name)
        value = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(value, str):
            found[name] = value
    return found


def _template(folder: Path, config: Mapping[str, Any]) -> str:
    """chat_template.jinja, else the config's: one text, or a list of named ones with "default"."""
    path = folder / CHAT_TEMPLATE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        named = {item.get("name"): item.get("template") for item in found}
        found = named.get("default")
    return found if isinstance(found, str) else ""
