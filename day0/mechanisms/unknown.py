"""What no mechanism explains: tensors of a layer's submodules, by module path, always new."""

from dataclasses import dataclass, replace
from itertools import groupby

from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer, Mechanism

FFN_MODULES = ("mlp", "block_sparse_moe", "ffn", "feed_forward", "moe", "experts", "shared_experts",
               "gate")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """`modules`: (module path, its tensors below it). `because`: why nothing takes it."""

    modules: tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]
    because: str


def read_unknown(layer: Layer, slot: str) -> Unknown | None:
    """The layer's submodules that could be its `slot` ("mixer" or "ffn"); None when there are
    none with tensors."""
    prefix = layer.at.prefix
    tensors = [name[len(prefix) :] for name in layer.at.names.below(prefix)]
    inside = [name for name in tensors if name.count(".") >= 1]
    modules = []
    for module, group in groupby(inside, key=lambda name: name.split(".")[0]):
        names = tuple(group)
        is_ffn = module in FFN_MODULES
        shapes = tuple(
            (name[len(module) + 1 :], layer.at.names.tensors[prefix + name].shape) for name in names
        )
        big = any(len(shape) > 1 for _, shape in shapes)
        if big and is_ffn == (slot == "ffn"):
            modules.append((module, shapes))
    if not modules:
        return None
    return Unknown(modules=tuple(modules), because="no mechanism knows these tensors")


def renamed(layer: Layer, other: Unknown) -> bool:
    """Whether a module holds the very tensor names that a module of another name holds in another
    layer: then it is that one under a wrong name, not a new kind of operator."""
    elsewhere: list[dict[str, set[str]]] = []
    for prefix in layer.at.elsewhere():
        there: dict[str, set[str]] = {}
        for name in layer.at.names.below(prefix):
            module, _, tail = name[len(prefix) :].partition(".")
            there.setdefault(module, set()).add(tail)
        elsewhere.append(there)
    odd = [
        {name for name, _ in tensors}
        for module, tensors in other.modules
        if not any(module in there for there in elsewhere)
    ]
    return any(tails in there.values() for there in elsewhere for tails in odd)


def damaged(layer: Layer, said: Mechanism, other: Unknown) -> bool:
    """Whether the modules here hold part of what they hold in a layer that `said` knows: then they
    are its own with tensors lost, which the proof names, and no new kind of operator."""
    here = {f"{module}.{name}" for module, tensors in other.modules for name, _ in tensors}
    modules = {module for module, _ in other.modules}
    for scope in layer.at.other_layers():
        names = (name[len(scope.prefix) :] for name in scope.names.below(scope.prefix))
        there = {name for name in names if name.partition(".")[0] in modules}
        if here < there and said.sees(replace(layer, at=scope)):
            return True
    return False


def flow(spec: Unknown, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    y = x
    for module, tensors in spec.modules:
        inner = at.child(module)
        weights = {
            f"w{i}": b.weight(f"{module}.{name}", inner.leaf(name, dims), role="dense")
            for i, (name, dims) in enumerate(tensors)
        }
        y = b.op("unknown", module, {"x": y}, weights, module=module)["y"]
    if not spec.modules:
        y = b.op("unknown", "unread", {"x": x}, {}, module=spec.because)["y"]
    return y


UNKNOWN = Mechanism(
    stem="unknown",
    spec=Unknown,
    sees=lambda layer: False,
    says=lambda layer: False,
    read=lambda layer: read_unknown(layer, "mixer"),
    flow=flow,
)
