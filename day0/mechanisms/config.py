"""The only way to a config key: every key is read or reported, every value has a provenance."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from day0.errors import NotSupported
from day0.ir.fact import Fact
from day0.mechanisms import config_kinds as kinds
from day0.mechanisms import fact_words

_NONE: Any = object()


_MEND = "mend config.json, or analyze the model's own repository"


class MissingWord(NotSupported):
    """A mechanism needs a word that no config key, tensor, table or assumption gives, or that
    stands there in a form (a list, a table) that it does not read."""


class ConfigReader:
    """Reads the decoder's config dict and records facts.

    `raw` is the decoder's dict, `top` the whole config.json (the same object unless composite),
    `inside` the path of `raw` in `top` ("text_config."). `known` maps fact paths to (value,
    source) of our own tables, `defaults` config keys to published class defaults, `stated` fact
    paths to the user's values.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        *,
        top: Mapping[str, Any] | None = None,
        inside: str = "",
        known: Mapping[str, tuple[Any, str]] | None = None,
        defaults: Mapping[str, Any] | None = None,
        defaults_of: str = "",
        stated: Mapping[str, Any] | None = None,
    ) -> None:
        self.raw = raw
        self.top = raw if top is None else top
        self.inside = inside
        self.known = known or {}
        self.defaults = defaults or {}
        self.defaults_of = defaults_of
        self.stated = stated or {}
        self.facts: dict[str, Fact] = {}
        self.read: set[str] = set()
        self.used: set[str] = set()
        self.absent: set[str] = set()
        self._layer = -1
        self._overrides: Mapping[str, Any] = {}
        self._touched: list[str] | None = None

    def word(self, *keys: str) -> Any:
        """The config's own value of the first key that has one (None counts as absent). Raises
        Day0Error for a value that the key cannot have, MissingWord for one of another form."""
        found = self._find(keys)
        return None if found is None else self._checked(*found)

    def says(self, *keys: str) -> bool:
        """Whether the config itself has a value (not null) for one of the keys."""
        return self._find(keys) is not None

    def get(
        self,
        path: str,
        *keys: str,
        derive: Callable[[], Any] | None = None,
        default: Any = _NONE,
        assume: Any = _NONE,
        decisive: bool = False,
    ) -> Any:
        """The value of fact `path`: stated, else config, header, known, class default, default,
        assumed.

        `derive` reads it off tensors (None: it cannot). `default` is what the absence of the key
        means in every published reader (recorded as "default"); `assume` is a guess (recorded as
        "assumed"). Raises MissingWord when nothing gives it.
        """
        value, how, source = self._resolve(path, keys, derive, default, assume)
        self._record(Fact(path=path, value=value, how=how, source=source, decisive=decisive))
        return value

    def note(self, path: str, value: Any, how: str, source: str, decisive: bool = False) -> Any:
        """Record a fact that was worked out elsewhere; a stated value wins. Returns the value."""
        if (own := self._own(path)) is not None:
            kind = kinds.of_example(value)
            value, how, source = self._stated(own, kind, value is None), "stated", "--facts"
        self._record(Fact(path=path, value=value, how=how, source=source, decisive=decisive))
        return value

    @contextmanager
    def recording(self) -> Iterator[list[str]]:
        """Collects the paths of the facts used inside."""
        outer, self._touched = self._touched, []
        try:
            yield self._touched
        finally:
            if outer is not None:
                outer.extend(self._touched)
            self._touched = outer

    @contextmanager
    def layer(self, index: int, overrides: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Within: facts belong to layer `index`, `overrides` win over the config's keys."""
        before = self._layer, self._overrides
        self._layer, self._overrides = index, overrides or {}
        try:
            yield
        finally:
            self._layer, self._overrides = before

    def mark_read(self, prefix: str) -> None:
        """Everything at or below `prefix` (a path in config.json) counts as read."""
        self.read.update(key for key in flatten(self.top) if (key + ".").startswith(prefix + "."))

    def unread(self, harmless: frozenset[str]) -> tuple[str, ...]:
        """Paths in config.json that nothing read, less the harmless last components."""
        return tuple(
            key
            for key in flatten(self.top)
            if key not in self.read and harmless.isdisjoint(key.split("."))
        )

    def unused_facts(self) -> tuple[str, ...]:
        """Stated facts that nothing asked for."""
        return tuple(path for path in self.stated if path not in self.used)

    def misspelt(self, unread: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """(unread key, the key that was asked for, is absent and looks like it)."""
        found = []
        for path in unread:
            key = path.removeprefix(self.inside)
            if "." in key:  # in a dict of its own, whose keys are asked for by their whole path
                continue
            near = difflib.get_close_matches(key, self.absent, n=1, cutoff=0.9)
            if near:
                found.append((path, near[0]))
        return tuple(found)

    def _find(self, keys: tuple[str, ...]) -> tuple[Any, str, str] | None:
        """(value, where it stands, the key) of the first key that has a value."""
        for key in keys:
            if key in self._overrides and self._overrides[key] is not None:
                return self._overrides[key], f"per-layer {key}", key
            if key.startswith("^"):
                where, full = self.top, key[1:]
            else:
                where, full = self.raw, self.inside + key
            value = _dig(where, key.lstrip("^"))
            if value is not _NONE:
                self._mark(full, value)
                if value is not None:
                    return value, f"config.json:{full}", key.lstrip("^")
            else:
                self.absent.add(key.lstrip("^"))
        return None

    def _checked(self, value: Any, source: str, key: str) -> Any:
        """The value in the form its key may have; of a list with one entry for each layer, the
        current layer's."""
        kind = kinds.KINDS.get(key)
        if kind is None:
            return value
        name = source.replace("config.json:", "config.json: ")
        if not kind.structure and isinstance(value, list) and 0 <= self._layer < len(value):
            layers = self.facts.get("num_layers")
            if layers is not None and layers.value == len(value):
                name, value = f"{name}[{self._layer}]", value[self._layer]
        taken = kind.take(value)
        if taken is not kinds.NO:
            return taken
        if isinstance(value, list | Mapping) or kind.structure:
            raise MissingWord(
                f"{name} is {kinds.shown(value)}; what is read there is {kind.says}",
                hint="state what depends on it: day0 analyze MODEL --facts FILE",
            )
        raise kinds.refusal(name, value, kind, _MEND)

    def _own(self, path: str) -> str | None:
        """The stated path that sets `path` here: that of the current layer ("PATH@3") first."""
        here = f"{path}@{self._layer}"
        return here if here in self.stated else path if path in self.stated else None

    def _stated(self, path: str, kind: kinds.Kind | None, null: bool) -> Any:
        """The user's value; null only where the absence of a value means something."""
        self.used.add(path)
        value = self.stated[path]
        kind = fact_words.kind_of(path) or kind
        if kind is None or (value is None and null):
            return value
        taken = kind.take(value)
        if taken is kinds.NO:
            raise kinds.refusal(f"--facts: {path}", value, kind, "mend the value in that file")
        return taken

    def _mark(self, full: str, value: Any) -> None:
        if isinstance(value, Mapping):
            self.read.update(f"{full}.{key}" for key in flatten(value))
        self.read.add(full)

    def _resolve(
        self,
        path: str,
        keys: tuple[str, ...],
        derive: Callable[[], Any] | None,
        default: Any,
        assume: Any,
    ) -> tuple[Any, str, str]:
        found = self._find(keys)
        if (own := self._own(path)) is not None:
            kind = self._kind(path, keys, default, assume)
            null = default is None or assume is None
            return self._stated(own, kind, null), "stated", "--facts"
        if found is not None:
            return self._checked(*found), "config", found[1]
        if derive is not None and (value := derive()) is not None:
            return value, "header", "tensor shapes"
        if path in self.known:
            value, source = self.known[path]
            return value, "known", source
        for key in keys:
            # An explicit null overrides the class default (V2-Lite's q_lora_rank).
            if self.defaults.get(key) is not None and _dig(self.raw, key) is _NONE:
                return self.defaults[key], "default", f"class default of {self.defaults_of}"
        if default is not _NONE:
            return default, "default", "absent key"
        if assume is not _NONE:
            return assume, "assumed", "nothing states it"
        spelled = " or ".join(repr(key.lstrip("^")) for key in keys) or "no key"
        raise MissingWord(
            f"config.json has no {spelled}, which gives {path}",
            hint=f"state it: day0 analyze MODEL --facts FILE with '{path}: VALUE'",
        )

    def _kind(
        self, path: str, keys: tuple[str, ...], default: Any, assume: Any
    ) -> kinds.Kind | None:
        """What a stated value must be: as its keys, else as what we would take without it."""
        for key in keys:
            if key.lstrip("^") in kinds.KINDS:
                return kinds.KINDS[key.lstrip("^")]
        known = self.known.get(path, (None, ""))[0]
        examples = (value for value in (known, default, assume) if value is not _NONE)
        return next((kind for v in examples if (kind := kinds.of_example(v)) is not None), None)

    def _record(self, fact: Fact) -> None:
        path = fact.path
        first = self.facts.get(path)
        if first is None:
            self.facts[path] = fact
        elif first.value != fact.value and self._layer >= 0:
            path = f"{path}@{self._layer}"
            self.facts[path] = Fact(
                path=path,
                value=fact.value,
                how=fact.how,
                source=fact.source,
                decisive=fact.decisive,
            )
        if self._touched is not None and path not in self._touched:
            self._touched.append(path)


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all leaves (lists are leaves; an empty dict is one too)."""
    for key, below in value.items():
        path = f"{prefix}{key}"
        if isinstance(below, Mapping) and below:
            yield from flatten(below, f"{path}.")
        else:
            yield path


def _dig(value: Any, key: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _NONE
        value = value[part]
    return value
