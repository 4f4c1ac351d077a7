"""The skeleton of a serving engine's plugin: entry point, class shape, weight map, cache specs.

What an engine asks for stands in its templates (vLLM 0.33, SGLang 0.5.23), what the model is in the
Graph. Nothing here has been loaded in an engine, and the written README says so.
"""

import re

from day0.analysis.analyze import Analysis
from day0.analysis.checklist import Checklist
from day0.analysis.worklist import WorkList
from day0.ir.graph import Graph
from day0.scaffold.engine_caches import engine_caches
from day0.scaffold.files import MARKER, marker
from day0.scaffold.render import answers, render
from day0.scaffold.weight_map import left_out, weight_map

GROUPS = {"vllm": "vllm.general_plugins", "sglang": "sglang.srt.plugins"}
ENGINES = tuple(GROUPS)
# Backends that SGLang brings for a family with recurrent states.
BACKENDS = {"kda": "sglang.srt.layers.attention.linear.kda_backend.KDAAttnBackend"}
OUTSIDE = -1  # the layer of what stands before or after all layers


def engine_files(
    analysis: Analysis, work: WorkList, checklist: Checklist, engine: str
) -> dict[str, str]:
    """Path -> text of every file of the plugin for `engine`, one of ENGINES."""
    spec, graph = analysis.spec, analysis.model.graphs["main"]
    package = f"day0_{work.name}_{engine}"
    caches = engine_caches(analysis.model)
    weights = weight_map(analysis.model)
    families = {op.family for op in graph.ops}
    values = {
        "package": package,
        "project": package.replace("_", "-"),
        "name": work.name,
        "engine": engine,
        "group": GROUPS[engine],
        "model": analysis.id,
        "recipe": analysis.recipe.name,
        "architectures": spec.architectures or (f"{work.name}ForCausalLM",),
        "model_type": spec.model_type or work.name,
        "class_name": class_name(work.name),
        "num_layers": len(spec.layers),
        "caches": caches,
        "specs": sorted({row.spec for row in caches.attention}),
        "hybrid": bool(caches.states),
        "backend": next((path for family, path in BACKENDS.items() if family in families), ""),
        "weights": weights,
        "left_out": left_out(analysis.model, weights),
        "kinds": _kinds(graph),
        "carried": carried(graph),
        "new": work.operators,
        **answers(checklist),
    }
    return {
        MARKER: marker(package, engine),
        "README.md": render("engine/README.md", **values),
        "checklist.md": render("package/checklist.md", **values),
        "pyproject.toml": render("engine/pyproject.toml", **values),
        f"{package}/__init__.py": render(f"{engine}/init.py", **values),
        f"{package}/config.py": render(f"{engine}/config.py", **values),
        f"{package}/model.py": render(f"{engine}/model.py", **values),
        f"{package}/caches.py": render(f"{engine}/caches.py", **values),
        f"{package}/weights.py": render("engine/weights.py", **values),
        f"{package}/operators.py": render("engine/operators.py", **values),
    }


def class_name(name: str) -> str:
    """ "glm5_next" -> "Glm5NextForCausalLM" """
    return "".join(part.capitalize() for part in re.split(r"_+", name)) + "ForCausalLM"


def carried(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Values that a pipeline stage hands to the next, and their dims without rows, at the border of
    two layers where most cross: the stream, and what later layers read (residual blocks, shared
    selections)."""
    last = {value: at for at, op in enumerate(graph.ops) for _, value in op.inputs}
    borders = [
        at
        for at, op in enumerate(graph.ops)
        if at and op.layer != OUTSIDE and OUTSIDE != graph.ops[at - 1].layer != op.layer
    ]
    widest: list[str] = []
    for border in borders:
        made = [value for op in graph.ops[:border] for _, value in op.outputs]
        crossing = [value for value in made if last.get(value, -1) >= border]
        widest = max(widest, crossing, key=len)
    # The stream is what was made last.
    names = ["hidden_states", *(f"carried_{number}" for number in range(1, len(widest)))]
    dims = [graph.values[value].dims for value in reversed(widest)]
    return {
        name: tuple(dim for dim in one if isinstance(dim, int))
        for name, one in zip(names[: len(dims)], dims, strict=True)
    }


def _kinds(graph: Graph) -> list[tuple[tuple[int, ...], tuple[tuple[str, str], ...]]]:
    """(layers, their operators in order as (name below the layer, family)), one for each kind;
    first what stands outside the layers, under ()."""
    layers: dict[int, list[tuple[str, str]]] = {}
    for op in graph.ops:
        name = op.id.removeprefix(f"layers.{op.layer}.")
        layers.setdefault(op.layer, []).append((name, op.family))
    kinds: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for layer, ops in layers.items():
        kinds.setdefault(tuple(ops), []).append(layer)
    return [
        (tuple(layer for layer in at if layer != OUTSIDE), ops)
        for ops, at in sorted(kinds.items(), key=lambda kind: kind[1])
    ]
