"""Options with one meaning everywhere, once."""

from pathlib import Path
from typing import Annotated

import typer

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A hub id (org/name[@revision]), a folder, catalog:NAME, or demo.",
        show_default=False,
    ),
]
Quant = Annotated[
    str, typer.Option("--quant", help="Recipe to plan for: fp32, bf16 or fp8.", metavar="NAME")
]
Format = Annotated[str, typer.Option("--format", help="human or json.", metavar="NAME")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write the report to this file.", show_default=False)
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit 1 when a finding is a warning or worse.")
]
Facts = Annotated[
    Path | None,
    typer.Option("--facts", help="YAML of facts to state: 'path: value'.", show_default=False),
]
RequireHeaders = Annotated[
    bool, typer.Option("--require-headers", help="Fail when there are no safetensors headers.")
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        help="Where headers are kept (default: DAY0_CACHE, else ~/.cache/day0).",
        show_default=False,
    ),
]
