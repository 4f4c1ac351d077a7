"""The checkpoint in another implementation: transformers' class for it, where that is installed.

Its modules are matched with ops by the tensors that both use, so no model is known by name: the
input and the output of every linear and norm module that has a tensor of its own is compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from day0.errors import Day0Error
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.weight import Leaf

ORACLES = ("transformers",)
# Their modules do one thing, the same everywhere; what others return differs from class to class.
_PLAIN = ("linear", "rmsnorm", "layernorm")
# The plain definitions: no kernels of other packages, no grouped products.
_EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
_WRAPPERS = ("model.", "language_model.", "text_model.")


@dataclass(slots=True)
class Seen:
    """What one pass gave: `logits` [T, V] or None, `hidden` [T, H] after the final norm, and
    (input, output) of every module by name, [T, ...] in fp32."""

    logits: torch.Tensor | None = None
    hidden: torch.Tensor | None = None
    modules: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)


def package() -> Any:
    """The package; Day0Error says how to install it."""
    try:
        return import_module("transformers")
    except ImportError as error:
        raise Day0Error(
            "--oracle transformers needs the package transformers, which is not installed",
            hint="pip install 'transformers>=5.24', or leave --oracle out",
        ) from error


class Transformers:
    """The checkpoint of a folder as the class that its config names, in fp32 on the CPU."""

    def __init__(self, folder: Path) -> None:
        theirs = package()
        theirs.utils.logging.disable_progress_bar()
        config = theirs.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        name = (config.architectures or [""])[0]
        model_class = getattr(theirs, name, None)
        if model_class is None:
            raise Day0Error(
                f"transformers {theirs.__version__} has no class {name!r}, which the config names",
                hint="pip install --upgrade transformers, or leave --oracle out",
            )
        self.name = f"{name} of transformers {theirs.__version__}"
        self._module: Any = model_class.from_pretrained(folder, dtype=torch.float32, **_EAGER)
        self._module.eval()

    @torch.no_grad()
    def run(self, ids: tuple[int, ...]) -> Seen:
        """One prompt in one piece."""
        seen, hooks = Seen(), []

        def hook(name: str):
            def keep(module: Any, given: Any, output: Any) -> None:
                first = output[0] if isinstance(output, tuple) else output
                pair = (given[0] if given else None), first
                if all(isinstance(t, torch.Tensor) and t.is_floating_point() for t in pair):
                    seen.modules.setdefault(name, tuple(t.detach().float() for t in pair))  # type: ignore[arg-type]

            return keep

        for name, module in self._module.named_modules():
            if not any(True for _ in module.children()):
                hooks.append(module.register_forward_hook(hook(bare(name))))
        try:
            output = self._module(input_ids=torch.tensor([ids]), use_cache=False)
        finally:
            for one in hooks:
                one.remove()
        logits, hidden = output.get("logits"), output.get("last_hidden_state")
        seen.logits = None if logits is None else logits[0].float()
        seen.hidden = None if hidden is None else hidden[0].float()
        return seen


def bare(name: str) -> str:
    """A module's or tensor's name without the wrappers that differ between saves."""
    while wrapper := next((w for w in _WRAPPERS if name.startswith(w)), ""):
        name = name.removeprefix(wrapper)
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An op and the module that has its tensor."""

    op: Op
    module: str


def matches(model: Model, graph: Graph, modules: Mapping[str, Any]) -> Iterator[Match]:
    """Plain ops whose only matrix or row is one whole tensor of one module."""
    for op in graph.ops:
        if op.family not in _PLAIN or not op.weights:
            continue
        source = model.weights[op.weights[0][1]].source
        if isinstance(source, Leaf):
            module = bare(source.name.rpartition(".")[0])
            if module in modules:
                yield Match(op=op, module=module)


def suspects(graph: Graph, value: str, good: frozenset[str]) -> tuple[Op, ...]:
    """The ops between `good` values and `value`, in program order."""
    makers, found, waiting = graph.producers(), set[str](), [value]
    while waiting:
        op = makers.get(waiting.pop())
        if op is None or op.id in found:
            continue
        found.add(op.id)
        waiting += [name for _, name in op.inputs if name not in good]
    return tuple(op for op in graph.ops if op.id in found)
