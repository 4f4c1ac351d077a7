"""The one entry: a checkpoint (or a catalog entry) -> Analysis."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from day0.analysis import caches, inventory, quant_audit, quant_lists
from day0.analysis import params as parameters
from day0.analysis.cost import Cost
from day0.analysis.cost import totals as cost_totals
from day0.analysis.machine import Machine, machine
from day0.analysis.proof import Proof, prove
from day0.analysis.uneven import uneven
from day0.checkpoint.headers import Headers
from day0.checkpoint.load import load
from day0.checkpoint.source import Checkpoint
from day0.ir import format as formats
from day0.ir.fact import Fact, Finding
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES, Recipe
from day0.ir.weight import leaves
from day0.models import ModelSpec
from day0.models.drafts import Count
from day0.models.plugin import load_plugin
from day0.models.quant_config import QuantConfig
from day0.models.read import guesses, read_model
from day0.models.recipes import recipe_called
from day0.registry.family import Context

CONTEXTS = {
    "prefill_4k": Context(phase="prefill", length=4096),
    "decode_4k": Context(length=4096),
    "decode_128k": Context(length=131_072),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """All findings about one model under one recipe. `machine`: what the plans are made for.
    `mtp`: layers that draft, declared and shipped."""

    id: str
    revision: str
    origin: str
    spec: ModelSpec
    model: Model
    recipe: Recipe
    machine: Machine
    headers: Headers | None
    proof: Proof
    params: parameters.Params
    bytes: parameters.Bytes
    entries: tuple[inventory.Entry, ...]
    new_fraction: inventory.NewFraction
    cache_totals: caches.CacheTotals
    quant: quant_audit.QuantAudit
    quant_config: QuantConfig | None
    costs: Mapping[str, Cost]
    mtp: Count
    unread_keys: tuple[str, ...]
    read: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def quant_source(self) -> str:
        """Where the checkpoint says how it is quantised; "" where nothing says it."""
        return "" if self.quant_config is None else self.quant_config.source

    @property
    def assumed(self) -> tuple[Fact, ...]:
        """Facts nothing supports."""
        return tuple(fact for fact in self.model.facts.values() if fact.how == "assumed")

    @property
    def settled(self) -> bool:
        """Whether no decisive fact is merely assumed."""
        return not any(fact.decisive for fact in self.assumed)


def analyze(
    name: str,
    *,
    quant: str = "bf16",
    stated: Mapping[str, Any] | None = None,
    require_headers: bool = False,
    cache_dir: Path | None = None,
    plugin: Path | None = None,
    gpu: str | None = None,
    num_gpus: int | None = None,
    progress: Callable[..., None] | None = None,
) -> Analysis:
    """Analyze MODEL: a hub id, a folder, "demo" or "catalog:NAME". `plugin`: a folder that
    registers operators and mechanisms first. `gpu`, `num_gpus`: of the machine to plan for, by
    whose capability operators are then judged. Day0Error says what is wrong."""
    recipe, planned = recipe_called(quant), machine(gpu, num_gpus)
    load_plugin(plugin)
    if name.startswith("catalog:"):
        return _of_catalog(name, recipe, stated, planned)
    checkpoint = load(name, require_headers=require_headers, cache_dir=cache_dir, progress=progress)
    return of_checkpoint(checkpoint, recipe=recipe, stated=stated, planned=planned)


def of_checkpoint(
    checkpoint: Checkpoint,
    *,
    recipe: Recipe = RECIPES["bf16"],
    stated: Mapping[str, Any] | None = None,
    planned: Machine | None = None,
) -> Analysis:
    """Analysis of what was read. `planned`: the machine, eight H200 where none is named."""
    read = read_model(checkpoint, stated)
    return _finish(
        model=read.model,
        recipe=recipe,
        planned=planned or machine(),
        headers=checkpoint.headers,
        quant=read.quant,
        findings=read.findings,
        id=checkpoint.id,
        revision=checkpoint.revision,
        origin=checkpoint.origin,
        mtp=read.mtp,
        unread=read.unread,
        read=checkpoint.read,
    )


def _of_catalog(
    name: str, recipe: Recipe, stated: Mapping[str, Any] | None, planned: Machine
) -> Analysis:
    from day0.catalog.entry import entry_called, model_of

    entry = entry_called(name.removeprefix("catalog:"))
    drafts = len(entry.spec.drafts)
    return _finish(
        mtp=Count(declared=drafts, shipped=drafts),
        model=model_of(entry, stated or {}),
        recipe=recipe,
        planned=planned,
        headers=None,
        quant=None,
        findings=(),
        id=name,
        revision=entry.revision,
        origin="catalog",
        unread=entry.unread_keys,
        read=(),
    )


def _finish(
    *,
    model: Model,
    recipe: Recipe,
    planned: Machine,
    headers: Headers | None,
    quant: QuantConfig | None,
    findings: tuple[Finding, ...],
    id: str,
    revision: str,
    origin: str,
    mtp: Count,
    unread: tuple[str, ...],
    read: tuple[str, ...],
) -> Analysis:
    proof = prove(model, headers)
    capability = planned.gpu.capability if planned.stated else None
    entries = inventory.inventory(model, recipe, capability=capability)
    audit = _audit(model, headers, quant)
    gaps = [] if headers is None else uneven(model, headers.tensors, proof.missing)
    narrow = _without_units(model, recipe, planned)
    found = (*findings, *proof.findings, *gaps, *audit.conflicts, *narrow, *_assumed(model))
    return Analysis(
        id=id,
        revision=revision,
        origin=origin,
        spec=model.spec,
        model=model,
        recipe=recipe,
        machine=planned,
        headers=headers,
        proof=proof,
        params=parameters.count(model),
        bytes=parameters.stored_bytes(model, headers),
        entries=entries,
        new_fraction=inventory.new_fraction(entries),
        cache_totals=caches.totals(model),
        quant=audit,
        quant_config=quant,
        costs=cost_totals(model, recipe, CONTEXTS),
        mtp=mtp,
        unread_keys=unread,
        read=read,
        findings=found,
    )


def _audit(
    model: Model, headers: Headers | None, quant: QuantConfig | None
) -> quant_audit.QuantAudit:
    tensors = None if headers is None else headers.tensors
    rows = []
    for weight in model.weights.values():
        for leaf, stack in leaves(weight.source):
            data = (leaf.parts[0][1] if leaf.parts else leaf.name).replace("{e}", "0")
            header = tensors.get(data) if tensors is not None else None
            elements = max(stack, 1)
            for dim in leaf.dims:
                elements *= dim
            dtype = formats.get(leaf.format).parts[0].dtypes[0] if tensors is None else None
            if header is not None:
                dtype = header.dtype
            rows.append((weight.name, leaf, dtype, elements))
    audit = quant_audit.audit(rows, quant, tensors)
    if tensors is None:
        return audit
    return replace(audit, conflicts=(*audit.conflicts, *quant_lists.fusions(model, quant)))


def _without_units(model: Model, recipe: Recipe, planned: Machine) -> list[Finding]:
    """Formats of the recipe that the stated GPU can only widen."""
    if not planned.stated:
        return []
    runs = {recipe.weight(weight) for weight in model.weights.values()}
    slow = [one for one in quant_lists.capabilities(sorted(runs), planned.gpu)
            if one.units == "bf16"]  # fmt: skip
    if not slow:
        return []
    message = f"{planned.gpu.name} has no matrix units for formats of recipe {recipe.name}"
    evidence = tuple(f"{one.format}: {one.words}" for one in slow)
    return [Finding(code="quant.hardware", severity="warning", message=message, evidence=evidence)]


def _assumed(model: Model) -> list[Finding]:
    """One finding for all decisive facts that are guesses."""
    paths = [
        f"{fact.path} = {fact.value!r}"
        + ("" if fact.source == "nothing states it" else f" ({fact.source})")
        for fact in guesses(model)
    ]
    if not paths:
        return []
    return [
        Finding(
            code="assumed_facts",
            severity="warning",
            message=f"{len(paths)} facts that change the numbers are stated nowhere and assumed; "
            "state them with --facts",
            evidence=tuple(paths),
        )
    ]
