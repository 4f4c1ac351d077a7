"""day0 run: load a model, continue prompts, and say how fast and with which implementations."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, emit_json, errors
from day0.cli.progress import weights_progress
from day0.cli.ranks import one_voice, speaks, together
from day0.cli.run_view import figures, prepared, report, shown
from day0.errors import Day0Error, Interrupted

if TYPE_CHECKING:
    from day0.runtime.api import Loaded
    from day0.runtime.opening import Opened
    from day0.runtime.prompts import Ask

FORMATS = ("human", "json")
DEFAULT_PROMPT = "Once upon a time"


def run(
    model: options.ModelName = "demo",
    prompt: options.Prompt = None,
    prompt_file: options.PromptFile = None,
    prompts: options.Prompts = None,
    chat: options.Chat = False,
    input_len: options.InputLen = None,
    batch: options.Batch = 1,
    max_new_tokens: options.MaxNewTokens = 16,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    seed: options.Seed = 0,
    stop: options.Stop = None,
    ignore_eos: options.IgnoreEos = False,
    quant: options.Quant = "bf16",
    backend: options.Backend = "auto",
    device: options.Device = "auto",
    dummy: options.Dummy = False,
    layers: options.Layers = None,
    facts: options.Facts = None,
    plugin: options.Plugin = None,
    without: options.Without = None,
    speculate: options.Speculate = None,
    draft_tokens: options.DraftTokens = 3,
    prefix_cache: options.PrefixCache = None,
    state_interval: options.StateInterval = None,
    state_dir: options.StateDir = None,
    n_best: options.NBest = 1,
    prepare: options.Prepare = False,
    max_context: options.MaxContext = None,
    max_batch: options.MaxBatch = None,
    max_memory: options.MaxMemory = None,
    mesh: options.RunMesh = None,
    dist_timeout: options.DistTimeout = 600.0,
    expert_load: options.ShowExpertLoad = False,
    format: options.Format = "human",
    out: options.Out = None,
    cache_dir: options.CacheDir = None,
) -> None:
    """Execute the Graph that analyze proves, on prompts or on a made-up load.

    MODEL may be left out: the demo is run.

    Examples:

        day0 run demo --prompt "Once upon a time" --max-new-tokens 16

        day0 run catalog:qwen--qwen3-0.6b --dummy --layers 2 --input-len 64 --batch 4

        torchrun --nproc-per-node 2 -m day0 run demo --mesh tp2
    """
    if format not in FORMATS:
        raise Day0Error(
            f"--format is {format!r}; it must be one of {', '.join(FORMATS)}",
            hint="day0 run MODEL --format json",
        )
    given = {"--prompt": prompt, "--prompt-file": prompt_file, "--prompts": prompts,
             "--input-len": input_len}  # fmt: skip
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise Day0Error(
            f"{' and '.join(named)} are given; one of {', '.join(given)} is allowed",
            hint=f"day0 run {model} {named[0]} ...",
        )
    if prepare and named:
        raise Day0Error(
            f"--prepare is given with {named[0]}; it prepares for any prompt and runs none",
            hint=f"day0 run {model} --prepare --max-context 8192 --max-batch 32",
        )
    if batch != 1 and input_len is None:
        raise Day0Error(
            f"--batch is {batch} without --input-len; it counts made-up prompts only",
            hint=f"day0 run {model} --input-len 64 --batch {batch}, or several --prompt",
        )
    stated = load_facts(facts)
    from day0.runtime.api import Loaded, jobs_for
    from day0.runtime.drafting import open_with_drafts
    from day0.runtime.expert_load import ExpertLoad
    from day0.runtime.opening import open_model
    from day0.runtime.prefix_files import write
    from day0.runtime.prompts import made_up
    from day0.runtime.prompts import n_best as several
    from day0.runtime.run_json import run_json
    from day0.runtime.sampling import Sampling
    from day0.runtime.sizing import prefixes_of, sizes_for, sizes_of
    from day0.runtime.threads import suit_threads

    sampling = Sampling(
        max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, top_k=top_k,
        seed=seed, stop=tuple(stop or ()),
    )  # fmt: skip
    prefixes = prefixes_of(prefix_cache, state_interval)
    if state_dir is not None and prefixes is None:
        raise Day0Error(
            f"--state-dir is {state_dir} without --prefix-cache; nothing is kept",
            hint=f"day0 run {model} --prefix-cache 4GiB --state-dir {state_dir}",
        )
    beside = {"--speculate": speculate, "--prefix-cache": prefix_cache}
    for name, value in beside.items():
        if mesh is not None and value is not None:
            raise Day0Error(
                f"--mesh is {mesh} with {name} {value}; several ranks do neither yet",
                hint=f"day0 run {model} --mesh {mesh}, or one process with {name}",
            )
    with ExitStack() as ranks:
        ranks.enter_context(one_voice(mesh))
        out = out if speaks(mesh) else None
        with interruptible(model):
            with weights_progress(errors()) as progress:
                both = partial(
                    open_model, quant=quant, backend=backend, dummy=dummy, seed=seed,
                    device=device, without=tuple(without or ()), cache_dir=cache_dir,
                    progress=progress,
                )  # fmt: skip
                main = partial(both, layers=layers, facts=stated, plugin=plugin)
                if speculate is None:
                    opened = main(model, mesh=mesh, dist_timeout=dist_timeout)
                else:
                    opened = open_with_drafts(model, speculate, draft_tokens, main=main, other=both)
            ranks.enter_context(together(opened.ranks))
            suit_threads(opened.model, opened.device)
            if prepare:
                sizes = sizes_of(
                    opened, max_context=max_context, max_batch=max_batch, max_memory=max_memory,
                    prefixes=prefixes,
                )  # fmt: skip
                _prepare(Loaded(opened, sizes), format, out)
                return
            asks: tuple[Ask, ...] = ()
            if input_len is None:
                asks = _asks(opened, prompt, prompt_file, prompts, chat)
            else:
                # One more, served alone and first, so that the batch's figures are warm ones.
                asks = made_up(
                    opened.model.spec.vocab_size, length=input_len, count=batch + 1, seed=seed
                )
            jobs = jobs_for(opened, asks, sampling=sampling, ignore_eos=ignore_eos)
            jobs = several(jobs, n_best)
            for note in opened.notes if speaks(mesh) else ():
                errors().print(f"note: {note}", markup=False, soft_wrap=True)
            sizes = sizes_for(
                opened, jobs, max_context=max_context, max_batch=max_batch, max_memory=max_memory,
                prefixes=prefixes,
            )  # fmt: skip
            loaded = Loaded(opened, sizes)
            loaded.prepare()
            if state_dir is not None:
                _read_states(loaded, state_dir)
            load = ExpertLoad() if expert_load else None
            loaded.session.watch = load.watch if load else None
            first = () if input_len is None else loaded.serving(jobs[:1]).run()
        measured = jobs[len(first) :]
        # One text is shown while it grows.
        streaming = format == "human" and out is None and len(measured) == 1 and not first
        serving = loaded.serving(measured, on_piece=_write if streaming else None)
        interrupted = False
        try:
            serving.run()
        except KeyboardInterrupt:
            interrupted = True
        if state_dir is not None:
            written = write(state_dir, loaded.session, [job.ids for job in measured])
            errors().print(f"note: {len(written)} states written to {state_dir}", markup=False,
                           soft_wrap=True)  # fmt: skip
        data = run_json(loaded, serving, before=first, interrupted=interrupted, expert_load=load)
        for warning in data["warnings"]:
            errors().print(f"warning: {warning}", markup=False, soft_wrap=True)
        if format == "json":
            emit_json(data, out)
        elif streaming and data["outputs"][0]["text"] is not None:
            sys.stdout.write("\n\n")
            emit(figures(data), out)
        else:
            emit(report(data), out)
        if interrupted:
            finished = sum(output.finish_reason != "cancelled" for output in serving.outputs)
            raise Interrupted(
                f"interrupted after {finished} of {len(measured)} requests, "
                f"{sum(len(output.ids) for output in serving.outputs)} tokens",
                hint="what was done is above; run it again with a smaller --max-new-tokens",
            )


def _read_states(loaded: "Loaded", folder: Path) -> None:
    from day0.runtime.prefix_files import read_all

    found = read_all(folder, loaded.session)
    errors().print(f"note: {len(found)} states of {sum(found):,} tokens read from {folder}",
                   markup=False, soft_wrap=True)  # fmt: skip


def _prepare(loaded: "Loaded", format: str, out: Path | None) -> None:
    from day0.runtime.run_json import prepare_json

    loaded.prepare()
    data = prepare_json(loaded)
    if format == "json":
        emit_json(data, out)
    else:
        emit(prepared(data), out)


def _asks(
    opened: "Opened",
    prompt: list[str] | None,
    prompt_file: Path | None,
    prompts: Path | None,
    chat: bool,
) -> "tuple[Ask, ...]":
    from day0.runtime.prompts import Ask, read_jsonl, read_text

    if prompts is not None:
        return read_jsonl(prompts)
    if prompt_file is not None:
        asked = [read_text(prompt_file, "--prompt-file")]
    elif prompt is not None:
        asked = prompt
    else:
        asked = [DEFAULT_PROMPT]
    where = str(prompt_file or "the prompt")
    if not chat:
        return tuple(Ask(prompt=text, where=where) for text in asked)
    return tuple(
        Ask(prompt=text, messages=({"role": "user", "content": text},), where=where)
        for text in asked
    )


@contextmanager
def interruptible(model: str, command: str = "run") -> Iterator[None]:
    """Ctrl-C before there is a result says so."""
    try:
        yield
    except KeyboardInterrupt:
        doing = "loaded" if command == "run" else "validated"
        raise Interrupted(
            f"interrupted while {model} was being {doing}; nothing was written",
            hint=f"day0 {command} {model} starts from the beginning",
        ) from None


def _write(number: int, piece: str) -> None:
    sys.stdout.write(shown(piece))
    sys.stdout.flush()
