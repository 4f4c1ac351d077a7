"""Tensor names: which of the spellings a mechanism knows is the one in this checkpoint.

A mechanism writes its plain names ("q_proj.weight") relative to a Scope; the Scope finds the
spelling that exists (in this layer, else in another layer, else the first one) and the form it is
stored in. Without headers the first spelling stands.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from day0.ir.weight import Dims, Leaf, Stack

Spellings = str | tuple[str, ...]


class StoredForm(Protocol):
    """What a recogniser of stored forms answers: ir.format name and stored tensor names by part."""

    @property
    def format(self) -> str: ...
    @property
    def parts(self) -> tuple[tuple[str, str], ...]: ...


Recogniser = Callable[[str, Dims], StoredForm]


class Names:
    """All tensor names of a checkpoint; `tensors` is empty where there are no headers."""

    def __init__(
        self,
        tensors: Mapping[str, Any],
        *,
        recognise: Recogniser,
        forms: Callable[[str], Sequence[str]],
    ) -> None:
        self.tensors = tensors
        self._recognise = recognise
        self._forms = forms
        self._sorted = sorted(tensors)

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def exists(self, name: str) -> bool:
        """Whether the weight called `name` is stored, plain or quantised."""
        tensors = self.tensors
        return name in tensors or any(form in tensors for form in self._forms(name))

    def below(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, sorted."""
        start = bisect_left(self._sorted, prefix)
        stop = bisect_left(self._sorted, prefix + "\U0010ffff", start)
        return self._sorted[start:stop]

    def count_below(self, prefix: str) -> int:
        """How many names start with `prefix`."""
        start = bisect_left(self._sorted, prefix)
        return bisect_left(self._sorted, prefix + "\U0010ffff", start) - start

    def any_below(self, prefix: str) -> bool:
        """Whether a name starts with `prefix`."""
        at = bisect_left(self._sorted, prefix)
        return at < len(self._sorted) and self._sorted[at].startswith(prefix)

    def children(self, prefix: str) -> list[str]:
        """The next path components below `prefix`, sorted; one step each, however many names."""
        found: list[str] = []
        at = bisect_left(self._sorted, prefix)
        while at < len(self._sorted) and self._sorted[at].startswith(prefix):
            child = self._sorted[at][len(prefix) :].partition(".")[0]
            if not found or found[-1] != child:
                found.append(child)
            # "/" follows "." in ASCII: the first name beyond everything below the child
            beyond = bisect_left(self._sorted, f"{prefix}{child}/", at)
            at = max(beyond, at + 1)
        return found

    def leaf(self, name: str, dims: Dims) -> Leaf:
        """The leaf for `name` ("{e}" stands for an expert number), in the form it is stored in."""
        stored = self._recognise(name, dims)
        return Leaf(name=name, dims=dims, format=stored.format, parts=stored.parts)


class Scope:
    """A place in the tree of names: a prefix, possibly inside layer `layer` of `stem`.

    `evidence` is where presence and shapes are looked up: the prefix itself, or, for a module that
    stands here under a wrong name, the same module of another layer.
    """

    def __init__(
        self,
        names: Names,
        prefix: str,
        *,
        stem: str = "",
        layer: int = -1,
        num_layers: int = 0,
        evidence: str | None = None,
    ) -> None:
        self.names = names
        self.prefix = prefix
        self._stem = stem
        self._layer = layer
        self._num_layers = num_layers
        self._evidence = prefix if evidence is None else evidence

    def layers(self, stem: str, layer: int, num_layers: int) -> "Scope":
        """The scope of one layer: "<prefix><stem>.<layer>."."""
        full = f"{self.prefix}{stem}."
        return Scope(self.names, f"{full}{layer}.", stem=full, layer=layer, num_layers=num_layers)

    def root(self) -> "Scope":
        """The scope in which the layers stand."""
        return Scope(self.names, self._stem[: self._stem[:-1].rfind(".") + 1])

    def child(self, *modules: str) -> "Scope":
        """The one of the modules that holds most tensors here; else, with "" among them and
        experts standing right here, this scope itself; else the one that exists in another layer;
        else the first."""
        names = self.names
        sizes = {
            module: names.count_below(f"{self.prefix}{module}.") for module in modules if module
        }
        best = max(sizes, key=lambda module: sizes[module], default="")
        if best and sizes[best]:
            return self._at(best)
        if "" in modules and names.any_below(f"{self.prefix}experts."):
            return self
        if self._evidence != self.prefix:
            for module in modules:
                if module and names.any_below(f"{self._evidence}{module}."):
                    return self._at(module)
        for prefix in self.elsewhere():
            for module in modules:
                if module and names.any_below(f"{prefix}{module}."):
                    return self._twin(modules) or self._at(module)
        return self._at(modules[0])

    def has(self, *spellings: str) -> bool:
        """Whether one of the tensors exists right here."""
        return any(self.names.exists(self._evidence + name) for name in spellings)

    def has_module(self, *modules: str) -> bool:
        """Whether tensors stand below one of the modules."""
        return any(self.names.any_below(f"{self._evidence}{module}.") for module in modules)

    def shape(self, *spellings: str) -> tuple[int, ...] | None:
        """Stored shape of the first spelling that exists unpacked, else None."""
        for name in spellings:
            header = self.names.tensors.get(self._evidence + name)
            if header is not None and header.dtype not in ("U8", "I8", "I32"):
                return header.shape
        return None

    def dim(self, axis: int, *spellings: str) -> int | None:
        """One dim of `shape`, else None."""
        shape = self.shape(*spellings)
        return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None

    def count(self, pattern: str) -> int | None:
        """How many of "…{e}…" exist, counting from 0; None when there are none."""
        if not self.names:
            return None
        count = 0
        while self.names.exists(self._evidence + pattern.format(e=count)):
            count += 1
        return count or None

    def spelling(self, spellings: Spellings) -> str:
        """The spelling that exists here, else in another layer, else the first."""
        options = (spellings,) if isinstance(spellings, str) else spellings
        if len(options) == 1:
            return options[0]
        for name in options:
            if self.names.exists(self._evidence + name):
                return name
        for prefix in self.elsewhere():
            for name in options:
                if self.names.exists(prefix + name):
                    return name
        return options[0]

    def leaf(self, spellings: Spellings, dims: Dims) -> Leaf:
        """The tensor of logical `dims`, in the form it is stored in."""
        return self.names.leaf(self.prefix + self.spelling(spellings), dims)

    def stack(self, spellings: Spellings, count: int, dims: Dims) -> Stack:
        """`count` tensors whose spelling holds "{e}"."""
        options = (spellings,) if isinstance(spellings, str) else spellings
        firsts = {name.format(e=index): name for index in (0, 1) for name in options}
        name = firsts[self.spelling(tuple(firsts))]
        return Stack(of=self.names.leaf(self.prefix + name, dims), count=count)

    def _at(self, module: str, evidence: str | None = None) -> "Scope":
        tail = f"{module}." if module else ""
        return Scope(
            self.names,
            self.prefix + tail,
            stem=self._stem,
            layer=self._layer,
            num_layers=self._num_layers,
            evidence=self._evidence + tail if evidence is None else evidence,
        )

    def _twin(self, modules: tuple[str, ...]) -> "Scope | None":
        """The module of another layer whose very tensor names stand here under a strange name."""
        here = self._grouped(self.prefix)
        for prefix in self.elsewhere():
            there = self._grouped(prefix)
            strangers = [tails for module, tails in here.items() if module not in there]
            if not strangers:
                continue
            for module in modules:
                if module in there and there[module] in strangers:
                    return self._at(module, f"{prefix}{module}.")
        return None

    def _grouped(self, prefix: str) -> dict[str, set[str]]:
        """Tensor names below each module at `prefix`."""
        found: dict[str, set[str]] = {}
        for name in self.names.below(prefix):
            module, dot, tail = name[len(prefix) :].partition(".")
            if dot:
                found.setdefault(module, set()).add(tail)
        return found

    def other_layers(self) -> list["Scope"]:
        """The scopes of the other layers, for a layer's own scope."""
        return [
            Scope(self.names, prefix, stem=self._stem, layer=-1, num_layers=self._num_layers)
            for prefix in self.elsewhere()
        ]

    def elsewhere(self) -> list[str]:
        """The same place in the other layers."""
        if self._layer < 0 or not self.names:
            return []
        here = f"{self._stem}{self._layer}."
        tail = self.prefix[len(here) :]
        return [
            f"{self._stem}{other}.{tail}"
            for other in range(self._num_layers)
            if other != self._layer
        ]
