"""Whether a mesh may split a graph: every op is asked, and the reasons are told."""

from collections.abc import Iterator, Mapping

from day0.errors import DoesNotFit, NotSupported
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.parallel.mesh import Mesh
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.placement import Placement
from day0.registry.split import expert_way, split
from day0.registry.ways import Way

# Reasons that an error tells; `analyze --plan parallel` has all.
TOLD = 3


def must_be_legal(
    graph: Graph, mesh: Mesh, shapes: Mapping[str, Shapes], placement: Placement
) -> None:
    """DoesNotFit with the first reasons against the mesh."""
    if mesh.pp > 1:
        raise NotSupported(
            f"--mesh {mesh.name} has {mesh.pp} pipeline stages; stages are planned for and not run",
            hint="day0 analyze MODEL --plan parallel",
        )
    if mesh.cp > 1:
        raise NotSupported(
            f"--mesh {mesh.name} splits the sequence over {mesh.cp} ranks; that is planned for and "
            "not run",
            hint="day0 analyze MODEL --plan parallel",
        )
    found: dict[str, list[str]] = {}
    for op in graph.ops:
        for reason in _against(op, shapes[op.id], placement.ways.get(op.id), mesh):
            found.setdefault(reason, []).append(op.id)
    if mesh.ep > 1 and not any(expert_way_of(op, shapes[op.id]) for op in graph.ops):
        found[f"EP {mesh.ep}: there are no routed experts"] = []
    if not found:
        return
    told = [reason + _where(ops) for reason, ops in found.items()]
    more = f"; and {len(told) - TOLD} more reasons" if told[TOLD:] else ""
    raise DoesNotFit(
        f"--mesh {mesh.name} is an illegal split: {'; '.join(told[:TOLD])}{more}",
        hint="day0 analyze MODEL --plan parallel shows the legal ones",
    )


def _against(op: Op, shapes: Shapes, way: Way | None, mesh: Mesh) -> Iterator[str]:
    experts = expert_way_of(op, shapes)
    ranks = mesh.expert_tp if experts else mesh.tp
    asked = [("TP", "tp", ranks), ("CP", "cp", mesh.cp)]
    if experts:
        asked.append(("EP", "ep", mesh.ep))
    for label, axis, n in asked:
        for reason in split(op, shapes, axis, n, way):
            yield f"{label} {n}: {reason}"


def _where(ops: list[str]) -> str:
    if not ops:
        return ""
    several = f" and {len(ops) - 1} more ops" if ops[1:] else ""
    return f" ({ops[0]}{several})"


def expert_way_of(op: Op, shapes: Shapes) -> Way | None:
    """How the op is dealt out in whole experts; None where it has none."""
    return expert_way(family(op.family), shapes)
