"""Options with one meaning everywhere, once."""

from pathlib import Path
from typing import Annotated

import typer

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A hub id (org/name\\[@revision]), a folder, catalog:NAME, or demo.",
        show_default=False,
    ),
]
OtherModel = Annotated[
    str,
    typer.Argument(metavar="OTHER", help="What to compare it with.", show_default=False),
]
Quant = Annotated[
    str, typer.Option("--quant", help="Recipe: fp32, bf16, fp8 or a FILE.yaml.", metavar="NAME")
]
Format = Annotated[str, typer.Option("--format", help="human or json.", metavar="NAME")]
ReportFormat = Annotated[
    str, typer.Option("--format", help="human, json, md, html or recipe-yaml.", metavar="NAME")
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write the report to this file.", show_default=False)
]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder to write to; made if need be.",
                       show_default=False),
]  # fmt: skip
Force = Annotated[bool, typer.Option("--force", help="Write over files that differ.")]
Target = Annotated[str, typer.Option("--target", metavar="NAME", help="day0, vllm or sglang.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit 1 when a finding is a warning or worse.")
]
StrictDiff = Annotated[bool, typer.Option("--strict", help="Exit 1 unless both compute the same.")]
StrictChecklist = Annotated[bool, typer.Option("--strict", help="Exit 1 when an item fails.")]
Evidence = Annotated[
    list[Path] | None,
    typer.Option(
        "--evidence",
        metavar="FILE",
        help="JSON of run or validate, or pytest's JUnit XML; repeatable.",
        show_default=False,
    ),
]
Stage = Annotated[
    str | None,
    typer.Option("--stage", metavar="NAME", show_default=False,
                 help="One stage (precision, ...) or operator family alone."),
]  # fmt: skip
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
Plugin = Annotated[
    Path | None,
    typer.Option(
        "--plugin",
        metavar="DIR",
        help="Folder whose plugin.py registers operators and mechanisms, or an installed plugin.",
        show_default=False,
    ),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="NAME",
        help="GPU to plan for: h200, h100, b200, ... (default: h200).",
        show_default=False,
    ),
]
NumGpus = Annotated[
    int | None,
    typer.Option(
        "--num-gpus",
        metavar="N",
        help="How many of them (default: 1 of the named GPU, else 8).",
        show_default=False,
    ),
]
Plan = Annotated[
    list[str] | None,
    typer.Option(
        "--plan",
        metavar="NAME",
        help="Show this plan in the terminal (all: every one); repeatable. JSON has all.",
        show_default=False,
    ),
]
Passes = Annotated[
    bool, typer.Option("--passes", help="Show what each lowering pass matched. JSON has it always.")
]
Backend = Annotated[
    str,
    typer.Option(
        "--backend", metavar="NAME", help="auto, or reference: the definitions in plain torch."
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N.")]
Dummy = Annotated[bool, typer.Option("--dummy", help="Make the weights up; no weights are read.")]
Layers = Annotated[
    int | None,
    typer.Option("--layers", metavar="N", help="Run the first N layers.", show_default=False),
]
Speculate = Annotated[
    str | None,
    typer.Option("--speculate", "--draft", metavar="SOURCE", show_default=False,
                 help="Speculative decoding: mtp (the model's own draft layer), ngram (its text so"
                      " far), or a smaller MODEL with the same tokenizer."),
]  # fmt: skip
DraftTokens = Annotated[
    int, typer.Option("--draft-tokens", metavar="N", help="Tokens a draft, 1 to 15.")
]
PrefixCache = Annotated[
    str | None,
    typer.Option("--prefix-cache", metavar="SIZE", show_default=False,
                 help="Keep pages and states of earlier prompts, as 4GiB, and go on from them."),
]  # fmt: skip
StateInterval = Annotated[
    int | None,
    typer.Option("--state-interval", metavar="N", show_default=False,
                 help="Tokens between two states that are kept (default: 2048)."),
]  # fmt: skip
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", show_default=False,
                 help="Read states of earlier runs from this folder, and write this run's."),
]  # fmt: skip
NBest = Annotated[
    int,
    typer.Option("--n-best", metavar="N", help="Continuations of every prompt, drawn apart."),
]
Prepare = Annotated[
    bool,
    typer.Option("--prepare", help="Compile all kernels that requests of --max-context and "
                 "--max-batch can meet into DAY0_CACHE, and stop."),
]  # fmt: skip
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="PASS", show_default=False,
                 help="Leave an optional pass out (layout, narrow, two_phase, fuse, "
                      "quantise_rows, streams); repeatable."),
]  # fmt: skip
RunMesh = Annotated[
    str | None,
    typer.Option("--mesh", metavar="MESH", show_default=False,
                 help="Ranks to run on, as tp2 or tp4ep4; under torchrun with as many processes."),
]  # fmt: skip
PlanMesh = Annotated[
    str | None,
    typer.Option("--mesh", metavar="MESH", show_default=False,
                 help="Show what ranks send one another and hold under this mesh, as tp2ep2."),
]  # fmt: skip
ShowExpertLoad = Annotated[
    bool,
    typer.Option("--expert-load", help="Count how often every expert is chosen; slower."),
]
DistTimeout = Annotated[
    float,
    typer.Option("--dist-timeout", metavar="SECONDS", min=1,
                 help="How long a rank waits for the others before all give up."),
]  # fmt: skip
MaxContext = Annotated[
    int | None,
    typer.Option(
        "--max-context",
        metavar="N",
        min=1,
        help="Tokens one sequence may hold (default: what the model states).",
        show_default=False,
    ),
]
MaxBatch = Annotated[
    int | None,
    typer.Option("--max-batch", metavar="N", min=1, show_default=False,
                 help="Sequences served at once (default: up to 8, as memory allows)."),
]  # fmt: skip
MaxMemory = Annotated[
    str | None,
    typer.Option("--max-memory", metavar="SIZE", show_default=False,
                 help="Bytes to fill at most, as 80GiB (default: what is free)."),
]  # fmt: skip
Prompt = Annotated[
    list[str] | None,
    typer.Option("--prompt", metavar="TEXT", help="Text to continue; repeatable.",
                 show_default=False),
]  # fmt: skip
PromptFile = Annotated[
    Path | None,
    typer.Option("--prompt-file", metavar="FILE", help="A file whose text is continued.",
                 show_default=False),
]  # fmt: skip
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help="JSONL: prompt, ids or messages a line, with sampling of its own.",
        show_default=False,
    ),
]
Chat = Annotated[bool, typer.Option("--chat", help="Put prompts into the model's chat template.")]
InputLen = Annotated[
    int | None,
    typer.Option("--input-len", metavar="N", min=1, show_default=False,
                 help="Made-up load: prompts of N random ids, ends ignored."),
]  # fmt: skip
Batch = Annotated[
    int,
    typer.Option("--batch", metavar="N", min=1, help="Made-up load: how many prompts at once."),
]
MaxNewTokens = Annotated[
    int, typer.Option("--max-new-tokens", metavar="N", help="Ids to produce at most.")
]
Temperature = Annotated[
    float, typer.Option("--temperature", metavar="X", help="0: the likeliest id, always.")
]
TopP = Annotated[
    float, typer.Option("--top-p", metavar="X", help="Draw from the likeliest ids that sum to X.")
]
TopK = Annotated[
    int, typer.Option("--top-k", metavar="N", help="Draw from the N likeliest ids; 0: from all.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of draws and made-up weights.")]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="End where this text comes; repeatable.",
                 show_default=False),
]  # fmt: skip
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Go on behind the model's end ids.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PART", show_default=False,
                 help="cells, lengths or speed alone; repeatable (default: all three)."),
]  # fmt: skip
CellName = Annotated[
    list[str] | None,
    typer.Option("--cell", metavar="NAME", show_default=False,
                 help="One cell of the matrix alone (decode, chunks, ...); repeatable."),
]  # fmt: skip
Oracle = Annotated[
    str | None,
    typer.Option("--oracle", metavar="NAME", show_default=False,
                 help="Compare with transformers' class, module by module."),
]  # fmt: skip
CheckLayers = Annotated[
    int | None,
    typer.Option("--check-layers", metavar="N", min=1, show_default=False,
                 help="Run cells and lengths on the first N layers; speed at full depth."),
]  # fmt: skip
Grid = Annotated[
    str | None,
    typer.Option("--grid", metavar="TEXT", show_default=False,
                 help='Points to time: "batch=1,8;input=128;output=64" (default: by device).'),
]  # fmt: skip
LoadKind = Annotated[
    str,
    typer.Option("--load", metavar="KIND",
                 help="burst, fixed:RATE or poisson:RATE in requests per second."),
]  # fmt: skip
Repeats = Annotated[
    int, typer.Option("--repeats", metavar="N", min=1, help="Timed runs of every grid point.")
]
LongestPrompt = Annotated[
    int | None,
    typer.Option("--max-context", metavar="N", min=1, show_default=False,
                 help="Longest prompt of the length sweep (default: by device)."),
]  # fmt: skip
BoundsFile = Annotated[
    Path | None,
    typer.Option("--bounds", metavar="FILE", show_default=False,
                 help="YAML of bounds: 'tpot_ms: 20', 'output_throughput@b8-i128-o64: 900'."),
]  # fmt: skip
Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", show_default=False,
                 help="An earlier report.json to compare with; regressions are marked."),
]  # fmt: skip
ReportFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", show_default=False,
                 help="Write report.json, report.md and report.html into this folder."),
]  # fmt: skip
