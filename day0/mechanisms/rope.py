"""Rotary tables as configs spell them (architectures.md 3.5), and their application."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from day0.ir.fact import Finding
from day0.mechanisms import config_kinds as kinds
from day0.mechanisms.builder import Builder
from day0.mechanisms.config import ConfigReader

# Keys of a rope dict that are not arguments of the scaling.
_PLAIN = ("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section",
          "mrope_interleaved")  # fmt: skip
# How configs spell the scalings -> `rope.TABLE`'s words. mrope of text alone is plain rope.
_KINDS = {
    "default": "default", "mrope": "default", "linear": "linear", "dynamic": "dynamic",
    "yarn": "yarn", "deepseek_yarn": "yarn", "llama3": "llama3", "longrope": "longrope",
    "su": "longrope", "proportional": "proportional",
}  # fmt: skip
_FROM_ORIGINAL = ("yarn", "longrope", "dynamic", "llama3")
_FROM_LENGTH = ("longrope", "dynamic")
_HINT = "mend config.json, or analyze the model's own repository"
_LABELS = ("full_attention", "sliding_attention", "indexed_attention", "main", "compress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """`dims` channels of each head are rotated, at its start or end (`place`), pairs (i, i+dims/2)
    ("half") or (2i, 2i+1) ("interleaved"). `args`: the scaling's numbers, sorted. `inverse`: turned
    the other way (nanochat)."""

    dims: int
    theta: float
    pairing: str
    place: str = "first"
    scaling: str = "default"
    args: tuple[tuple[str, Any], ...] = ()
    inverse: bool = False

    def table(self) -> dict[str, Any]:
        """Attributes of the `rope.TABLE` schema."""
        return {"theta": self.theta, "scaling": self.scaling, "scaling_args": self.args}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a config says of a rotary table; `partial`: rotated share of the head, or None."""

    theta: float
    scaling: str
    args: tuple[tuple[str, Any], ...]
    partial: float | None


def table(cfg: ConfigReader, label: str = "", *theta_keys: str) -> Table | None:
    """The table for layers of kind `label` ("full_attention", "sliding_attention", ...), or None
    where the config has no rotary words at all or sets the kind's entry or its base to null.

    `theta_keys` are looked at first (swa_rope_theta, rope_local_base_freq). Of several bases the
    one inside the rope dict counts (transformers 5.24 fills in the outer one only where the dict
    has none); `conflicts` reports the rest.
    """
    words = _words(cfg, label)
    if words is None:
        return None
    suffix = f".{label}" if label else ""
    theta = cfg.word(*theta_keys) if theta_keys else None
    source = "config.json:" + (theta_keys[0] if theta_keys else "")
    if theta is None:
        outer = cfg.word("rope_theta")
        theta, source = outer, "config.json:rope_theta"
        if words.get("rope_theta") is not None:
            theta, source = words["rope_theta"], "config.json:rope_parameters.rope_theta"
        elif theta is None and "rope_theta" in words:
            return None  # a base of null turns rotary embedding off (OLMo-Hybrid)
    if theta is None and not words and "rope.theta_default" not in cfg.known:
        return None
    if theta is None:
        theta = _unstated_theta(cfg, suffix)
    else:
        theta = cfg.note("rope.theta" + suffix, float(theta), "config", source)
    kind = _kind(cfg, words, suffix)
    cfg.word("original_max_position_embeddings")  # Phi-3 states it without any scaling
    partial = words.get("partial_rotary_factor", cfg.word("partial_rotary_factor", "rotary_pct"))
    args = () if kind == "default" else _arguments(cfg, words, kind)
    if kind == "proportional":  # the whole head takes part, and its first pairs turn
        args = tuple(sorted((*args, ("partial_rotary_factor", float(partial or 1.0)))))
        partial = None
    return Table(
        theta=float(theta),
        scaling=kind,
        args=args,
        partial=None if partial is None else float(partial),
    )


def _words(cfg: ConfigReader, label: str) -> dict[str, Any] | None:
    """The config's rope dict for a kind of layer ({} where it has none), None where it is null."""
    modern = cfg.word("rope_parameters")
    legacy = cfg.word("rope_scaling")
    if modern is not None and any(key in modern for key in _LABELS):
        shared = {key: value for key, value in modern.items() if not isinstance(value, Mapping)}
        entry = modern.get(label)
        if entry is None:
            return None
        if not isinstance(entry, Mapping):
            raise kinds.refusal(f"rope_parameters.{label}", entry, kinds.TABLE, _HINT)
        modern = {**shared, **entry}
    return {**_checked("rope_parameters", modern), **_checked("rope_scaling", legacy)}


def _checked(name: str, words: Mapping[str, Any] | None) -> dict[str, Any]:
    """A rope dict whose known entries are of their kind; Day0Error where one is not."""
    found = dict(words or {})
    for key, value in found.items():
        kind = kinds.ROPE.get(key)
        if kind is None or value is None:
            continue
        if (taken := kind.take(value)) is kinds.NO:
            raise kinds.refusal(f"config.json: {name}.{key}", value, kind, _HINT)
        found[key] = taken
    return found


def _unstated_theta(cfg: ConfigReader, suffix: str) -> float:
    """The class's own base where the type is known (field case 14: told apart from a stated
    one), else the base most classes have, as an assumption."""
    if "rope.theta_default" in cfg.known:
        value, source = cfg.known["rope.theta_default"]
        return cfg.note("rope.theta" + suffix, value, "default", source, decisive=True)
    return cfg.get("rope.theta" + suffix, assume=10000.0, decisive=True)


def _kind(cfg: ConfigReader, words: Mapping[str, Any], suffix: str) -> str:
    spelled = str(words.get("rope_type", words.get("type", "default")))
    kind = _KINDS.get(spelled)
    if kind is None:
        source = f"rope_type {spelled!r} is unknown"
        return cfg.note("rope.scaling" + suffix, "default", "assumed", source, decisive=True)
    return cfg.note("rope.scaling" + suffix, kind, "config" if words else "default", "rope words")


def _arguments(
    cfg: ConfigReader, words: Mapping[str, Any], kind: str
) -> tuple[tuple[str, Any], ...]:
    """The scaling's own numbers, and the lengths that it is worked out from where the dict leaves
    them to the config's outer keys (Phi-3 states original_max_position_embeddings there)."""
    args = {key: value for key, value in words.items() if key not in _PLAIN and value is not None}
    needs = ["original_max_position_embeddings"] if kind in _FROM_ORIGINAL else []
    if kind in _FROM_LENGTH or "factor" not in args:
        needs.append("max_position_embeddings")
    for key in needs:
        value = cfg.word(key)
        if key not in args and value is not None:
            args[key] = value
    return tuple(sorted((key, _plain(value)) for key, value in args.items()))


def conflicts(cfg: ConfigReader) -> list[Finding]:
    """Two bases that differ (field case 12)."""
    modern, legacy = cfg.word("rope_parameters"), cfg.word("rope_scaling")
    found = [("rope_theta", cfg.word("rope_theta"))]
    for key, words in (("rope_parameters", modern), ("rope_scaling", legacy)):
        if words is not None and not any(label in words for label in _LABELS):
            found.append((f"{key}.rope_theta", _checked(key, words).get("rope_theta")))
    stated = [(key, value) for key, value in found if value is not None]
    if len({float(value) for _, value in stated}) < 2:
        return []
    return [
        Finding(
            code="rope_theta_conflict",
            severity="warning",
            message=" and ".join(f"{key} is {value}" for key, value in stated)
            + f"; {stated[-1][0]} is used",
            evidence=tuple(key for key, _ in stated),
        )
    ]


def said_pairing(cfg: ConfigReader, path: str, key: str, assume: str) -> str:
    """The pairing by the config's yes or no under `key`, else the fact `path`."""
    word = cfg.word(key)
    if word is not None:
        return cfg.note(path, "interleaved" if word else "half", "config", key)
    return cfg.get(path, assume=assume, decisive=True)


def yarn_scale(found: Table | None) -> float:
    """Factor on the softmax scale of latent attention under yarn with mscale_all_dim:
    (0.1 * mscale_all_dim * ln(factor) + 1)^2 (field case 16)."""
    if found is None or found.scaling != "yarn":
        return 1.0
    args = dict(found.args)
    factor, all_dim = args.get("factor", 1.0), args.get("mscale_all_dim")
    if not all_dim or factor <= 1:
        return 1.0
    return (0.1 * all_dim * math.log(factor) + 1.0) ** 2


def rotate(
    b: Builder, ident: str, x: str, rope: Rope, *, heads: int, inverse: bool = False,
    frequencies: str | None = None,
) -> str:  # fmt: skip
    """x with `rope.dims` channels of each of `heads` heads rotated by the row's position."""
    return b.op(
        "rope",
        ident,
        {"x": x},
        {} if frequencies is None else {"log_frequency": frequencies},
        num_heads=heads,
        dims=rope.dims,
        place=rope.place,
        pairing=rope.pairing,
        inverse=inverse != rope.inverse,
        **rope.table(),
    )["y"]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return value
