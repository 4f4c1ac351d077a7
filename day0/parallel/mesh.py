"""The mesh of ranks: axes, coordinates and the ranks that share an axis. No torch.

Rank = cp place * tp + tp place: the ranks of one tp group are neighbours, which one host holds.
Expert parallelism has no ranks of its own: its groups lie over the tp * cp ranks.
"""

import re
from dataclasses import dataclass

from day0.errors import Day0Error, DoesNotFit

# As --mesh spells them; an axis that is not named has one rank.
AXES = ("pp", "cp", "tp", "ep")
# What a collective may be told to run over.
GROUPS = ("tp", "cp", "ep", "expert_tp", "all")
_TEXT = re.compile(rf"(?:(?:{'|'.join(AXES)})[1-9][0-9]*)+")
_PART = re.compile(rf"({'|'.join(AXES)})([1-9][0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The ranks that share an axis with one of them, in the axis' order, and that one's place."""

    name: str
    ranks: tuple[int, ...]
    place: int

    @property
    def size(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """Ranks of one engine: tp * cp * pp. `ep` groups of whole experts lie over the tp * cp ranks of
    a stage, the cp ranks first; what is left of the tp ranks cuts every expert. `replicas`: equal
    engines side by side on the rest of the GPUs."""

    tp: int = 1
    ep: int = 1
    cp: int = 1
    pp: int = 1
    replicas: int = 1

    @property
    def size(self) -> int:
        """Ranks of one engine."""
        return self.pp * self.cp * self.tp

    @property
    def expert_tp(self) -> int:
        """Ranks that share one expert's inner channels."""
        return self.tp if self.ep == 1 else self.tp * self.cp // self.ep

    @property
    def name(self) -> str:
        """As --mesh spells it: "tp8ep8", "cp2tp4"."""
        parts = [("pp", self.pp), ("cp", self.cp), ("tp", self.tp), ("ep", self.ep)]
        return "".join(f"{axis}{n}" for axis, n in parts if n > 1) or "tp1"

    def axis(self, name: str, rank: int) -> Axis:
        """Who shares the axis `name` with `rank`: "tp", "cp", "ep" (one expert each), "expert_tp"
        (the same experts, cut) or "all"."""
        groups = self.groups(name)
        ranks = next(ranks for ranks in groups if rank in ranks)
        return Axis(name=name, ranks=ranks, place=ranks.index(rank))

    def groups(self, name: str) -> tuple[tuple[int, ...], ...]:
        """All groups of an axis; every rank is in one of them."""
        if name not in GROUPS:
            raise ValueError(f"no axis {name!r} (there are: {', '.join(GROUPS)})")
        ranks = range(self.cp * self.tp)
        if name == "all":
            return (tuple(ranks),)
        if name == "tp":
            return _blocks(ranks, self.tp)
        if name == "cp":
            return _strides(ranks, self.tp)
        if name == "expert_tp":
            return _blocks(ranks, self.expert_tp)
        return _strides(ranks, self.expert_tp) if self.ep > 1 else _blocks(ranks, 1)


def parse(text: str) -> Mesh:
    """The mesh that --mesh spells, as "cp2tp2ep4". Day0Error for what is none; DoesNotFit (exit 3)
    where ep groups do not lie evenly over the other ranks."""
    if not _TEXT.fullmatch(text):
        raise Day0Error(
            f"--mesh is {text!r}; axes {', '.join(AXES)} with their numbers of ranks are expected",
            hint="--mesh tp2, --mesh cp2tp2ep4",
        )
    found = _PART.findall(text)
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Day0Error(
            f"--mesh {text} names {twice} {names.count(twice)} times; each axis is named once",
            hint="--mesh tp2, --mesh cp2tp2ep4",
        )
    sizes = {name: int(count) for name, count in found}
    mesh = Mesh(
        tp=sizes.get("tp", 1), ep=sizes.get("ep", 1), cp=sizes.get("cp", 1), pp=sizes.get("pp", 1)
    )
    _must_lie_evenly(mesh, text)
    return mesh


def _must_lie_evenly(mesh: Mesh, text: str) -> None:
    """Groups of experts are whole multiples of the cp ranks and leave equal shares of the tp."""
    if mesh.ep == 1 or (mesh.ep % mesh.cp == 0 and mesh.tp % (mesh.ep // mesh.cp) == 0):
        return
    legal = [mesh.cp * part for part in range(1, mesh.tp + 1) if mesh.tp % part == 0]
    allowed = ", ".join(str(n) for n in legal if n > 1)
    if not allowed:
        reason = "it lies over the tp and cp ranks, and there is one"
        hint = f"--mesh tp{mesh.ep}ep{mesh.ep}"
    else:
        reason = f"over cp{mesh.cp} and tp{mesh.tp} it may be {allowed}"
        hint = f"--mesh cp{mesh.cp}tp{mesh.tp}ep{allowed.rsplit(', ')[-1]}"
    raise DoesNotFit(f"--mesh {text}: EP {mesh.ep} does not lie evenly: {reason}", hint=hint)


def _blocks(ranks: range, size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(ranks[first : first + size]) for first in range(0, len(ranks), size))


def _strides(ranks: range, step: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(ranks[first::step]) for first in range(step))


def shares(units: int, n: int) -> tuple[tuple[int, int], ...]:
    """First unit and end of each of `n` shares in order; they differ by one unit at most."""
    borders = [units * place // n for place in range(n + 1)]
    return tuple(zip(borders, borders[1:], strict=False))
