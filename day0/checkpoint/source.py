"""The one result of reading a checkpoint, wherever it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from day0.checkpoint.headers import Headers
from day0.ir.fact import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Raw material of an analysis.

    `id` as the user named it, `revision` the commit or "", `origin` "hub", "folder" or "demo".
    `config` is config.json as parsed (non-finite numbers as floats). `headers` is None when no
    safetensors file exists. `read` lists the files that were read, `findings` what was noticed
    while reading (non-finite numbers, remote code, shards left out, a cache used offline, ...).
    """

    id: str
    revision: str
    origin: str
    config: Mapping[str, Any]
    headers: Headers | None
    generation_config: Mapping[str, Any] | None = None
    tokenizer_config: Mapping[str, Any] | None = None
    quant_sidecar: Mapping[str, Any] | None = None
    read: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default_factory=tuple)
