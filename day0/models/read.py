"""Checkpoint -> Model: reading, building, grouping, with all facts and findings on the way."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from day0.checkpoint.source import Checkpoint
from day0.errors import NotSupported
from day0.ir.fact import Fact, Finding
from day0.ir.graph import Model
from day0.models import decoder, words
from day0.models.build import build
from day0.models.cut import cut
from day0.models.drafts import Count
from day0.models.groups import groups_of
from day0.models.known.harmless import HARMLESS
from day0.models.quant_config import QuantConfig, quant_config


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadModel:
    """A model as its checkpoint gives it; its `mtp` layers counted, `unread` config keys,
    `findings` so far."""

    model: Model
    quant: QuantConfig | None
    mtp: Count
    unread: tuple[str, ...]
    findings: tuple[Finding, ...]


def read_model(
    checkpoint: Checkpoint, stated: Mapping[str, Any] | None = None, *, layers: int | None = None
) -> ReadModel:
    """The one way from a checkpoint to a Model: analyze and run both take it. `layers`: only the
    first so many, without drafts (models.cut)."""
    cfg = words.reader(checkpoint.config, stated)
    quant = quant_config(checkpoint.config, checkpoint.quant_sidecar)
    reading = decoder.read(cfg, checkpoint.headers, quant)
    spec = cut(replace(reading.spec, name=checkpoint.id), layers)
    model = build(spec, reading.names, reading.places)
    model, group_findings = groups_of(model, checkpoint, reading)
    unread = cfg.unread(HARMLESS)
    findings = [*checkpoint.findings, *reading.findings, *group_findings]
    if unread:
        findings.append(
            Finding(
                code="unread_keys",
                severity="info",
                message=f"{len(unread)} keys of config.json that no mechanism reads",
                evidence=unread,
            )
        )
    if near := cfg.misspelt(unread):
        findings.append(
            Finding(
                code="misspelt_keys",
                severity="warning",
                message=f"{len(near)} keys of config.json that look like keys the model is read by",
                evidence=tuple(f"{key}: is {wanted} meant?" for key, wanted in near),
            )
        )
    if unused := cfg.unused_facts():
        findings.append(
            Finding(
                code="unused_facts",
                severity="warning",
                message=f"{len(unused)} facts of --facts that nothing asks for; the facts of this "
                "model stand under 'facts' in --format json",
                evidence=unused,
            )
        )
    return ReadModel(
        model=replace(model, facts=dict(cfg.facts)),
        quant=quant,
        mtp=reading.mtp,
        unread=unread,
        findings=tuple(findings),
    )


def guesses(model: Model) -> tuple[Fact, ...]:
    """Decisive facts that are merely assumed."""
    return tuple(fact for fact in model.facts.values() if fact.how == "assumed" and fact.decisive)


def must_be_settled(model: Model) -> None:
    """NotSupported (exit 4) with the YAML for --facts when a decisive fact is assumed."""
    found = guesses(model)
    if found:
        # Dumped, not written: YAML takes 1e-06 for a text.
        lines = yaml.safe_dump({fact.path: fact.value for fact in found}, sort_keys=False).strip()
        raise NotSupported(
            f"{len(found)} facts that change the numbers are assumed: "
            + ", ".join(fact.path for fact in found),
            hint=f"write what is true into FILE and pass --facts FILE:\n{lines}",
        )
