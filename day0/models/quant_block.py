"""The pieces of a quantisation block: keys read or reported, rules, the KV scheme."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from day0.errors import Day0Error
from day0.models.module_patterns import Patterns, parse

# Names of module classes that targets use; only these can be told from a tensor's name and dims.
LINEAR = frozenset({"Linear", "LinearBase", "torch.nn.Linear", "torch.nn.modules.linear.Linear"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KvScheme:
    """How the KV cache is quantised. `granularity`: what one scale covers ("tensor" unless said
    otherwise); `dynamic`: scales are computed while running, none are stored."""

    format: str
    granularity: str = "tensor"
    dynamic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A format and the weights it is for: all linear ones, or those that `targets` names.

    `ignore`: what the method itself leaves out, on no list. `format` None: an algorithm that is
    not known here.
    """

    format: str | None
    linear: bool = False
    targets: Patterns = Patterns()
    ignore: Patterns = Patterns()

    def takes(self, name: str, module: str, dims: tuple[int, ...]) -> bool:
        """Whether the rule is for this weight."""
        if not (self.linear and looks_linear(name, module, dims)) and not self.targets.match(
            module
        ):
            return False
        return not self.ignore.match(module)


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a method's reader collects."""

    method: str
    rules: list[Rule] = field(default_factory=list)
    layers: dict[str, str | None] = field(default_factory=dict)
    exclude: Patterns = Patterns()
    listed: tuple[str, ...] = ()
    kv: KvScheme | None = None
    activations: str = ""
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    online: list[str] = field(default_factory=list)


class Block:
    """A JSON object whose keys are read by name; `unread` lists the rest by path."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path
        self._read: set[str] = set()
        self._inner: list[Block] = []

    def get(self, key: str, default: Any = None) -> Any:
        """The value under `key`; null counts as absent."""
        self._read.add(key)
        value = self._values.get(key)
        return default if value is None else value

    def first(self, *keys: str) -> Any:
        """The first value that is there among keys of one meaning."""
        found = [self.get(key) for key in keys]
        return next((value for value in found if value is not None), None)

    def word(self, *keys: str, default: str = "") -> str:
        """The string under the first of the keys that is there."""
        value = self.first(*keys)
        if value is not None and not isinstance(value, str):
            raise wrong(self.path(keys[0]), value, "a word is needed")
        return default if value is None else value

    def number(self, *keys: str) -> int | None:
        """The whole number under the first of the keys that is there."""
        value = self.first(*keys)
        if value is not None and not _whole(value):
            raise wrong(self.path(keys[0]), value, "a whole number is needed")
        return value

    def sizes(self, key: str) -> tuple[int, int] | None:
        """The two block sizes under `key`."""
        value = self.get(key)
        if value is None:
            return None
        good = isinstance(value, list) and len(value) == 2
        if not good or not all(_whole(size) and size > 0 for size in value):
            raise wrong(self.path(key), value, "two sizes are needed")
        return value[0], value[1]

    def block(self, key: str) -> "Block | None":
        """The object under `key`, its keys to be read or reported as well; None for null."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise wrong(self.path(key), value, "an object is needed")
        inner = Block(value, f"{self._path}{key}.")
        self._inner.append(inner)
        return inner

    def blocks(self, key: str) -> "tuple[Block, ...]":
        """The objects of the list under `key`; their other keys are nobody's business."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            raise wrong(self.path(key), value, "a list of objects is needed")
        return tuple(Block(one, f"{self.path(key)}.") for one in value)

    def words(self, *keys: str) -> tuple[str, ...]:
        """The strings of the lists under `keys`, one after the other."""
        found: list[str] = []
        for key in keys:
            value = self.get(key, ())
            if isinstance(value, str):
                value = (value,)
            is_list = isinstance(value, list | tuple)
            if not is_list or not all(isinstance(one, str) for one in value):
                raise wrong(self.path(key), value, "a list of names is needed")
            found += value
        return tuple(found)

    def patterns(self, *keys: str) -> Patterns:
        """The lists under `keys` as module patterns."""
        return parse(self.words(*keys))

    def skip(self, *keys: str) -> None:
        """Mark keys that say nothing about how weights are stored."""
        self._read.update(keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def path(self, key: str) -> str:
        return f"{self._path}{key}"

    def unread(self) -> tuple[str, ...]:
        """Paths of the keys that nobody asked for."""
        own = [f"{self._path}{key}" for key in self._values if key not in self._read]
        return (*own, *(path for inner in self._inner for path in inner.unread()))


def wrong(path: str, value: Any, needed: str) -> Day0Error:
    """The error for a value of a quantisation block that cannot be read."""
    shown = repr(value)
    if len(shown) > 60:
        shown = f"{shown[:60]}..."
    return Day0Error(
        f"{path} of the quantisation block is {shown}; {needed}",
        hint="correct config.json or hf_quant_config.json; the hub's copy may be newer",
    )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def looks_linear(name: str, module: str, dims: tuple[int, ...]) -> bool:
    """Whether a weight may be that of a linear layer, from name and dims: a matrix that is no
    embedding, or a stack of matrices that is fused experts."""
    if "embed" in module.rpartition(".")[2]:
        return False
    return len(dims) == 2 if name.endswith(".weight") else len(dims) == 3
