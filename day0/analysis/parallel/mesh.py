"""Meshes: which there are for a number of GPUs, and why one is illegal."""

from collections.abc import Iterator

from day0.analysis.kinds import Kind, Kinds, shapes_in
from day0.parallel.mesh import Mesh
from day0.registry.split import split

DEGREES = (*range(1, 17), 24, 32, 48, 64, 96, 128)


def meshes(count: int, *, experts: bool) -> Iterator[Mesh]:
    """All meshes whose ranks divide `count`, the rest of the GPUs as replicas."""
    for pp in _divisors(count):
        for cp in _divisors(count // pp):
            for tp in _divisors(count // pp // cp):
                groups = {1} | {cp * part for part in _divisors(tp) if experts}
                for ep in sorted(groups):
                    yield Mesh(tp=tp, ep=ep, cp=cp, pp=pp, replicas=count // (pp * cp * tp))


class Law:
    """Reasons against a mesh, each worked out once per degree. `stored`: in the formats of the
    checkpoint instead of the recipe's."""

    def __init__(self, found: Kinds, *, stored: bool = False) -> None:
        self.found = found
        self._shapes = shapes_in(stored)
        self._known: dict[tuple[str, int], tuple[str, ...]] = {}

    def reasons(self, mesh: Mesh) -> tuple[str, ...]:
        """All that is wrong with it; () when it is legal."""
        told = [*self.of("tp", mesh.tp), *self.of("experts", mesh.expert_tp)]
        told += [*self.of("ep", mesh.ep), *self.of("cp", mesh.cp)]
        if mesh.pp > self.found.num_layers:
            told.append(f"PP {mesh.pp}: there are {self.found.num_layers} layers")
        return tuple(told)

    def of(self, axis: str, n: int) -> tuple[str, ...]:
        """`axis`: "tp" (all but routed experts), "experts" (their inner channels), "ep", "cp"."""
        if (axis, n) not in self._known:
            self._known[axis, n] = tuple(self._ask(axis, n))
        return self._known[axis, n]

    def _ask(self, axis: str, n: int) -> Iterator[str]:
        """Reasons, each with the ops it is about."""
        ops: dict[str, list[Kind]] = {}
        for kind in self.found.kinds:
            if axis in ("tp", "experts") and (kind.expert is not None) != (axis == "experts"):
                continue
            if axis == "ep" and kind.expert is None:
                continue
            on = "tp" if axis == "experts" else axis
            for reason in split(kind.op, self._shapes(kind), on, n, kind.way):
                ops.setdefault(reason, []).append(kind)
        label = "TP" if axis in ("tp", "experts") else axis.upper()
        for reason, kinds in ops.items():
            number = sum(len(kind.layers) for kind in kinds)
            names = ", ".join(kind.op.id for kind in kinds[:3]) + (" ..." if kinds[3:] else "")
            several = f", {number} ops" if number > len(kinds) else ""
            where = f" ({names}{several})" if ": " not in reason else ""
            where = where or (f" ({number} ops)" if number > 1 else "")
            whole = (
                "; whole experts on each rank (EP) need no such cut" if axis == "experts" else ""
            )
            yield f"{label} {n}: {reason}{where}{whole}"


def legal_degrees(law: Law) -> tuple[int, ...]:
    """Tensor-parallel degrees, experts cut as well, that nothing speaks against."""
    return tuple(n for n in DEGREES if not law.of("tp", n) and not law.of("experts", n))


def _divisors(count: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, count + 1) if count % n == 0)
