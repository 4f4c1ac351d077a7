"""MODEL to something that can be loaded: read, built, checked; no weights yet."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from day0.catalog.entry import entry_called, model_of
from day0.checkpoint.headers import Headers
from day0.checkpoint.load import load
from day0.checkpoint.source import Checkpoint
from day0.checkpoint.weights import Progress, weights_folder
from day0.errors import Day0Error
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.models.cut import cut
from day0.models.drafts import Count
from day0.models.groups import unclaimed
from day0.models.plugin import load_plugin
from day0.models.read import read_model
from day0.models.recipes import recipe_called
from day0.parallel.collectives import TIMEOUT, Ranks, connect, local_rank, rank_and_world
from day0.parallel.mesh import Mesh, parse
from day0.passes.lower import SWITCHES, Lowered
from day0.passes.shard import Place
from day0.runtime.kernel_cache import keep_in, watch
from day0.runtime.limits import Sizes, limits_of
from day0.runtime.session import Session, lowered_for, open_session
from day0.runtime.text import TOKENIZER, Text, stop_ids

if TYPE_CHECKING:
    from day0.runtime.drafting import Drafting

BACKENDS = ("auto", "reference")
CATALOG = "catalog:"
DRAFTS_LEFT_OUT = "the drafts (multi-token prediction) are not run; --speculate mtp runs them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A model about to be loaded. `text` is None without a tokenizer; `stop_ids` end a sequence;
    `dummy_seed` None: weights come from `folder`. `drafting`: what drafts tokens for it;
    `mtp`: its MTP layers counted. `notes`: what a user should know."""

    name: str
    origin: str
    revision: str
    model: Model
    recipe: Recipe
    backend: str
    device: str
    headers: Headers | None = None
    folder: Path | None = None
    text: Text | None = None
    stop_ids: tuple[int, ...] = ()
    dummy_seed: int | None = None
    without: tuple[str, ...] = ()
    cache_dir: Path | None = None
    lowered: Mapping[str, Lowered] = field(default_factory=dict)
    drafting: "Drafting | None" = None
    mtp: Count = Count()
    notes: tuple[str, ...] = ()
    place: Place = Place()
    ranks: Ranks | None = None

    def session(self, sizes: Sizes) -> tuple[Session, float]:
        """The weights loaded and bound, and the seconds that took."""
        start = time.perf_counter()
        if self.device != "cpu":
            keep_in(self.cache_dir, torch.cuda.get_device_capability(self.device))
            watch()
        limits = None
        if self.drafting is not None:  # its caches lie under the same page tables
            sizes = replace(sizes, drafts=self.drafting.tokens)
            caches = [*self.lowered["prefill"].caches.values(), *self.drafting.caches]
            limits = limits_of(caches, sizes, self.device)
        session = open_session(
            self.model,
            self.recipe,
            headers=self.headers,
            folder=self.folder,
            backend=self.backend,
            dummy_seed=self.dummy_seed,
            sizes=sizes,
            device=self.device,
            without=self.without,
            lowered=self.lowered,
            limits=limits,
            ranks=self.ranks,
        )
        if self.drafting is not None:
            self.drafting.attach(session, self)
        return session, time.perf_counter() - start


def open_model(
    name: str,
    *,
    quant: str = "bf16",
    backend: str = "auto",
    dummy: bool = False,
    seed: int = 0,
    layers: int | None = None,
    facts: Mapping[str, Any] | None = None,
    plugin: Path | None = None,
    device: str = "auto",
    without: Sequence[str] = (),
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    settle: Callable[[Opened], Opened] | None = None,
    mesh: str | None = None,
    dist_timeout: float = TIMEOUT,
) -> Opened:
    """Read MODEL and build its Graph. `dummy`: weights are made up from `seed`. `layers`: the
    first so many alone. `without`: optional passes left out. The weights of a hub id are downloaded
    once all else is known to work; `progress(bytes here, bytes in all, shard)` sees it. `settle`:
    what else is to be decided before that. `mesh`: this process is a rank of it, started by
    torchrun, and loads its share alone; `dist_timeout` seconds may pass until the others answer.

    Day0Error for what a user can mend; NotSupported (exit 4) names decisive facts that are
    assumed, with the YAML that states them, or operators that nothing runs.
    """
    if backend not in BACKENDS:
        raise Day0Error(
            f"--backend is {backend!r}; it must be one of {', '.join(BACKENDS)}",
            hint="day0 run MODEL --backend auto",
        )
    for name_of_pass in without:
        if name_of_pass not in SWITCHES:
            raise Day0Error(
                f"--without is {name_of_pass!r}; the passes that may be left out are "
                f"{', '.join(SWITCHES)}",
                hint=f"day0 run {name} --without {SWITCHES[0]}",
            )
    at = _place(mesh)
    recipe, place = recipe_called(quant), _device(device, at)
    at = replace(at, wide=place == "cpu")
    load_plugin(plugin)
    checkpoint = None
    if name.startswith(CATALOG):
        opened = _of_catalog(name, recipe, dummy=dummy, layers=layers, facts=facts or {})
    else:
        checkpoint = load(name, cache_dir=cache_dir)
        opened = _of_checkpoint(checkpoint, recipe, dummy=dummy, layers=layers, facts=facts or {})
    opened = replace(
        opened,
        backend=backend,
        device=place,
        dummy_seed=seed if dummy else None,
        without=tuple(without),
        cache_dir=cache_dir,
        notes=(*_notes(opened, dummy, layers), *opened.notes),
    )
    lowered = lowered_for(
        opened.model, recipe, backend, device=place, without=opened.without, place=at
    )
    opened = replace(opened, lowered=lowered, place=at)
    if settle is not None:
        opened = settle(opened)
    if checkpoint is not None:
        opened = _with_files(opened, checkpoint, cache_dir, progress)
    if at.mesh.size == 1:
        return opened
    # last: whatever one process can find wrong has been said by now
    ranks = connect(at.mesh, torch.device(place), timeout=dist_timeout)
    return replace(opened, ranks=ranks)


def _of_checkpoint(
    checkpoint: Checkpoint,
    recipe: Recipe,
    *,
    dummy: bool,
    layers: int | None,
    facts: Mapping[str, Any],
) -> Opened:
    if checkpoint.headers is None and not dummy:
        raise Day0Error(
            f"{checkpoint.id} has no safetensors weights to run",
            hint=f"day0 run {checkpoint.id} --dummy makes weights up",
        )
    read = read_model(checkpoint, facts, layers=layers)
    return Opened(
        name=checkpoint.id,
        origin=checkpoint.origin,
        revision=checkpoint.revision,
        model=read.model,
        recipe=recipe,
        backend="",
        device="",
        headers=checkpoint.headers,
        mtp=read.mtp,
        notes=tuple(f.message for f in read.findings if f.severity != "info"),
    )


def _with_files(
    opened: Opened, checkpoint: Checkpoint, cache_dir: Path | None, progress: Progress | None
) -> Opened:
    """The same with its folder, tokenizer and end ids. Made-up weights of a hub id need no file."""
    folder = None
    if checkpoint.origin != "hub" or opened.dummy_seed is None:
        folder = weights_folder(checkpoint, cache_dir=cache_dir, progress=progress)
    text = Text.read(folder) if folder is not None and (folder / TOKENIZER).is_file() else None
    ends = stop_ids(checkpoint.generation_config, checkpoint.config, text)
    return replace(opened, folder=folder, text=text, stop_ids=ends)


def _of_catalog(
    name: str, recipe: Recipe, *, dummy: bool, layers: int | None, facts: Mapping[str, Any]
) -> Opened:
    entry = entry_called(name.removeprefix(CATALOG))
    if not dummy:
        raise Day0Error(
            f"{name} is a description without weights; it runs with --dummy alone",
            hint=f"day0 run {name} --dummy --layers 2, or day0 run {entry.id}",
        )
    entry = replace(entry, spec=cut(replace(entry.spec, name=name), layers))
    return Opened(
        name=name,
        origin="catalog",
        revision=entry.revision,
        model=model_of(entry, facts),
        recipe=recipe,
        backend="",
        device="",
    )


def _place(mesh: str | None) -> Place:
    """This process' rank of the mesh that --mesh spells."""
    shape = Mesh() if mesh is None else parse(mesh)
    rank, _ = rank_and_world()
    return Place(mesh=shape, rank=min(rank, shape.size - 1))


def _device(name: str, at: Place) -> str:
    """The torch device; "auto" is the GPU where there is one, for a rank of a mesh its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cpu" or at.mesh.size == 1:
            return name
    if name == "cuda" and at.mesh.size > 1:
        name = f"cuda:{local_rank()}"
    kind, _, number = name.partition(":")
    count = torch.cuda.device_count()
    fine = name == "cpu" or (kind == "cuda" and (not number or number.isdigit()))
    if not fine or (kind == "cuda" and int(number or 0) >= count):
        raise Day0Error(
            f"--device is {name!r}; here it may be auto, cpu"
            + "".join(f", cuda:{i}" for i in range(count)),
            hint="day0 run MODEL --device auto",
        )
    return name


def _notes(opened: Opened, dummy: bool, layers: int | None) -> list[str]:
    notes = []
    if dummy:
        notes.append("the weights are made up (--dummy): the text is noise")
    elif opened.origin == "demo":
        notes.append("the demo's weights are random: its text is noise")
    if layers is not None:
        kept = len(opened.model.spec.layers)
        notes.append(f"{kept} layers are run, the rest left out: the text is noise")
    elif opened.headers is not None and (left := unclaimed(opened.model, opened.headers.tensors)):
        notes.append(
            f"{len(left)} tensors belong to nothing known and are not read, {left[0]} first: "
            f"day0 analyze {opened.name}"
        )
    if opened.model.spec.drafts:
        notes.append(DRAFTS_LEFT_OUT)
    if opened.model.groups:
        notes.append(
            "not run: " + ", ".join(f"{group.name} ({group.role})" for group in opened.model.groups)
        )
    return notes
