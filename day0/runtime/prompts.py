"""What is asked for, in every form a caller may give it, to jobs: ids and how to sample."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from day0.errors import Day0Error
from day0.runtime.chat import Message
from day0.runtime.sampling import Sampling
from day0.runtime.text import Text, no_tokenizer

FORMS = ("prompt", "ids", "messages")
KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "max_new_tokens": ((int,), "a whole number"),
    "min_new_tokens": ((int,), "a whole number"),
    "temperature": ((int, float), "a number"),
    "top_p": ((int, float), "a number"),
    "top_k": ((int,), "a whole number"),
    "seed": ((int,), "a whole number"),
    "stop": ((str, list), "a text or a list of texts"),
    "ignore_eos": ((bool,), "true or false"),
}
_EXAMPLE = '{"prompt": "Hello", "max_new_tokens": 8}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One of `prompt`, `ids`, `messages`; `options` of its own (keys of KINDS); `where` it stands,
    for errors."""

    prompt: str | None = None
    ids: tuple[int, ...] | None = None
    messages: tuple[Message, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = "the prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request ready to be served; `prompt` is its text where it came as text. `fork`: another
    continuation of the prompt of the job before."""

    prompt: str | None
    ids: tuple[int, ...]
    sampling: Sampling
    fork: bool = False

    @property
    def tokens(self) -> int:
        """What its cache must hold at most."""
        return len(self.ids) + self.sampling.max_new_tokens


def jobs_of(
    asks: Sequence[Ask],
    text: Text | None,
    *,
    name: str,
    sampling: Sampling,
    stop_ids: tuple[int, ...],
    ignore_eos: bool = False,
) -> tuple[Job, ...]:
    """Jobs in the same order. `sampling` holds where an ask says nothing; `stop_ids` are the
    model's. Day0Error for text without a tokenizer, an empty prompt, options out of range."""
    jobs = []
    for ask in asks:
        options = dict(ask.options)
        ends = () if options.pop("ignore_eos", ignore_eos) else stop_ids
        stop = options.pop("stop", sampling.stop)
        own = replace(
            sampling,
            **options,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            stop_ids=(*sampling.stop_ids, *ends),
        )
        own.check()
        if own.stop and text is None:
            raise no_tokenizer(name)
        jobs.append(Job(prompt=ask.prompt, ids=_ids(ask, text, name), sampling=own))
    return tuple(jobs)


def n_best(jobs: Sequence[Job], count: int) -> tuple[Job, ...]:
    """Every job `count` times, with seeds one after another. Day0Error where nothing is drawn."""
    if count < 1:
        raise Day0Error(f"--n-best is {count}; it must be 1 or more", hint="day0 run --n-best 4")
    greedy = next((job for job in jobs if not job.sampling.temperature), None)
    if count > 1 and greedy is not None:
        raise Day0Error(
            f"--n-best is {count} with temperature 0, which gives one text {count} times",
            hint=f"day0 run MODEL --n-best {count} --temperature 0.8",
        )
    return tuple(
        replace(job, sampling=replace(job.sampling, seed=job.sampling.seed + n), fork=n > 0)
        for job in jobs
        for n in range(count)
    )


def _ids(ask: Ask, text: Text | None, name: str) -> tuple[int, ...]:
    if ask.ids is not None:
        ids = ask.ids
    elif text is None:
        raise no_tokenizer(name)
    elif ask.messages is not None:
        ids = text.encode_chat(ask.messages)
    else:
        ids = text.encode(ask.prompt) if ask.prompt else ()
    if not ids:
        raise Day0Error(
            f"{ask.where} is empty; one token or more is needed", hint="day0 run --prompt TEXT"
        )
    return ids


def made_up(vocab_size: int, *, length: int, count: int, seed: int) -> tuple[Ask, ...]:
    """`count` prompts of `length` random ids, no two alike from the first token on (a prefix that
    repeats would flatter the TTFT where prefixes are kept)."""
    draw = random.Random(seed)
    firsts = draw.sample(range(vocab_size), min(count, vocab_size))
    return tuple(
        Ask(
            ids=(
                firsts[number % len(firsts)],
                *(draw.randrange(vocab_size) for _ in range(length - 1)),
            ),
            options={"ignore_eos": True},
            where=f"request {number}",
        )
        for number in range(count)
    )


def read_jsonl(path: Path) -> tuple[Ask, ...]:
    """One ask per line of a JSONL file; Day0Error names the line that is wrong."""
    lines = read_text(path, "--prompts").splitlines()
    asks = tuple(
        _ask(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()
    )
    if not asks:
        raise Day0Error(f"{path} holds no request", hint=f"write lines such as {_EXAMPLE}")
    return asks


def read_text(path: Path, option: str) -> str:
    """A file's text; Day0Error when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Day0Error(
            f"{option} {path} cannot be read: {reason or error}", hint="name a readable text file"
        ) from error


def _ask(line: str, where: str) -> Ask:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise _wrong(where, f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise _wrong(where, f"a {type(data).__name__}; it must be an object")
    forms = [form for form in FORMS if form in data]
    if len(forms) != 1:
        raise _wrong(where, f"with {' and '.join(forms) or 'none'} of {', '.join(FORMS)}")
    value, options = data.pop(forms[0]), data
    for name, option in options.items():
        if name not in KINDS:
            raise _wrong(where, f"with {name!r}; allowed are {', '.join((*FORMS, *KINDS))}")
        kinds, allowed = KINDS[name]
        is_flag = isinstance(option, bool) and bool not in kinds
        if is_flag or not isinstance(option, kinds) or not _texts(option):
            raise _wrong(where, f"with {name} {option!r}; it must be {allowed}")
    if forms[0] == "prompt" and isinstance(value, str):
        return Ask(prompt=value, options=options, where=where)
    if forms[0] == "ids" and isinstance(value, list) and all(type(i) is int for i in value):
        return Ask(ids=tuple(value), options=options, where=where)
    if forms[0] == "messages" and isinstance(value, list) and all(map(_is_message, value)):
        return Ask(messages=tuple(value), options=options, where=where)
    allowed = {"prompt": "a text", "ids": "a list of whole numbers",
               "messages": 'a list of {"role": ..., "content": ...}'}[forms[0]]  # fmt: skip
    raise _wrong(where, f"with {forms[0]} that is not {allowed}")


def _texts(option: object) -> bool:
    return not isinstance(option, list) or all(isinstance(item, str) for item in option)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _wrong(where: str, what: str) -> Day0Error:
    return Day0Error(f"{where} is {what}", hint=f"write lines such as {_EXAMPLE}")
