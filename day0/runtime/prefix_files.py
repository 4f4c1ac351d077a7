"""Prefilled states on disk: the pages and the state of one text, to go on from in another process.

A file is safetensors (tokens, pages by number, slots by cache and part) whose metadata name the
schema, the model, the recipe and a CRC-32 of every tensor. What does not fit is refused: a state of
other weights gives wrong text and no error.
"""

import hashlib
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from day0.errors import Day0Error
from day0.ir.recipe import Recipe
from day0.runtime.memory import shown
from day0.runtime.prefix import Kept, PrefixCache
from day0.runtime.session import Session
from day0.runtime.sharing import State

SCHEMA = "day0.state/1"
ENDING = ".day0state"
SAMPLED = 64  # values of every weight that tell it from another
SLICE = 1 << 24  # bytes that one thread sums up


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Whose states these are. `weights`: a hash of names, shapes and 64 values of each weight;
    `recipe`: its name and a hash of its rules; `storages`: 1, or 2 with what drafts."""

    schema: str
    recipe: str
    weights: str
    page_size: str
    storages: str


def mark_of(session: Session) -> Mark:
    """The mark of a session's states."""
    storages = 1 if session.follower is None else 2
    return Mark(
        schema=SCHEMA,
        weights=_fingerprint(session.weights),
        recipe=_named(session.recipe),
        page_size=str(session.limits.page_size),
        storages=str(storages),
    )


def read_all(folder: Path, session: Session) -> list[int]:
    """Take in every state of a folder that fits into the session's prefix cache; tokens of each.
    Day0Error for a file that is damaged or of another model or recipe. A folder that is not there
    yet has none."""
    paths = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    mark = mark_of(session) if paths else None
    return [_read(path, _cache(session), mark) for path in paths if mark is not None]


def write(folder: Path, session: Session, prompts: Iterable[Sequence[int]]) -> list[Path]:
    """The deepest state of each prompt, in a file of its own; what is there already is left."""
    cache, mark, written = _cache(session), None, []
    for prompt in prompts:
        # the prompt's last token is computed again, as its logits are wanted
        node = cache.find(prompt)
        if node is None:
            continue
        tokens = [token for one in node.path() for token in one.tokens]
        digest = hashlib.sha256(torch.tensor(tokens, dtype=torch.int32).numpy().tobytes())
        path = folder / f"{digest.hexdigest()[:32]}{ENDING}"
        if not path.exists():
            mark = mark or mark_of(session)
            _write(path, tokens, cache, node.kept, [one.page for one in node.path()], mark)
            written.append(path)
    return written


def _cache(session: Session) -> PrefixCache:
    cache = session.engine().prefix
    if cache is None:
        raise Day0Error(
            "--state-dir is given without --prefix-cache; there is nothing to keep states in",
            hint="day0 run MODEL --prefix-cache 4GiB --state-dir DIR",
        )
    return cache


def _write(
    path: Path, tokens: list[int], cache: PrefixCache, kept: Kept | None, pages: list[int],
    mark: Mark,
) -> None:  # fmt: skip
    tensors = {"tokens": torch.tensor(tokens, dtype=torch.int32)}
    held = {0: list(enumerate(pages))} if pages and pages[0] else {}
    held |= {} if kept is None else {span: list(own) for span, own in kept.windows.items()}
    for span, places in held.items():
        tensors[f"numbers.{span}"] = torch.tensor([at for at, _ in places], dtype=torch.int32)
        copies = cache.places.pages(span, [page for _, page in places])
        tensors |= _named_state(f"pages.{span}", copies)
    if kept is not None:
        tensors |= _named_state("state", kept.state)
    tensors = {name: value.contiguous().cpu() for name, value in tensors.items()}
    metadata = {**asdict(mark), **{f"crc32 {name}": s for name, s in _sums(tensors).items()}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # beside it, so that what stands under its own name is whole; with a plain file's rights
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
            whole = Path(folder, "state")
            save_file(tensors, whole, metadata=metadata)
            whole.replace(path)
    except (OSError, SafetensorError) as error:
        size = shown(sum(tensor.nbytes for tensor in tensors.values()))
        raise Day0Error(
            f"a state of {size} cannot be written to {path.parent}: {error}",
            hint="name another folder: day0 run MODEL --state-dir DIR",
        ) from error


def _read(path: Path, cache: PrefixCache, mark: Mark) -> int:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            _must_be(path, metadata, mark)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error
    sums = _sums(tensors)
    wrong = [name for name in sums if metadata.get(f"crc32 {name}") != sums[name]]
    if wrong or {f"crc32 {name}" for name in sums} != {k for k in metadata if k[:6] == "crc32 "}:
        raise _damaged(path, f"{(wrong or ['its list of tensors'])[0]} is not what was written")
    tokens = tensors.pop("tokens").tolist()
    spans = [int(name.partition(".")[2]) for name in tensors if name.startswith("numbers.")]
    pages = {
        span: (
            tensors[f"numbers.{span}"].tolist(),
            _state(f"pages.{span}", tensors, int(mark.storages)),
        )
        for span in spans
    }
    state = _state("state", tensors, int(mark.storages))
    if not cache.take_in(tokens, pages, state):
        raise Day0Error(
            f"{path.name} holds {len(tokens):,} tokens, more than --prefix-cache and --max-context "
            "leave room for",
            hint="a larger --prefix-cache, or another --state-dir",
        )
    return len(tokens)


def _must_be(path: Path, metadata: Mapping[str, str], mark: Mark) -> None:
    """Day0Error for a state that is not this model's."""
    words = {
        "schema": "its schema",
        "recipe": "its recipe",
        "weights": "the weights it was computed with (hash)",
        "page_size": "its page size",
        "storages": "the number of models whose caches it holds (2 with drafts)",
    }
    for name, wanted in asdict(mark).items():
        if metadata.get(name) != wanted:
            raise Day0Error(
                f"{path.name} is not a state of this model: {words[name]} is "
                f"{metadata.get(name)!r}, and {wanted!r} is needed",
                hint="name a folder of this model's own: day0 run MODEL --state-dir DIR",
            )


def _damaged(path: Path, why: str) -> Day0Error:
    return Day0Error(
        f"{path} is damaged: {why}", hint="remove it; the next run with --state-dir writes it again"
    )


def _named_state(stem: str, state: State) -> dict[str, torch.Tensor]:
    return {
        f"{stem}.{number}.{name}": value
        for number, own in enumerate(state)
        for name, value in own.items()
    }


def _state(stem: str, tensors: Mapping[str, torch.Tensor], storages: int) -> State:
    found: list[dict[str, torch.Tensor]] = [{} for _ in range(storages)]
    for name, value in tensors.items():
        if name.startswith(f"{stem}."):
            number, _, rest = name.removeprefix(f"{stem}.").partition(".")
            found[int(number)][rest] = value
    return tuple(found)


def _sums(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """CRC-32 of every tensor's bytes, by slices side by side (zlib leaves Python's lock)."""
    views = {name: _bytes(value) for name, value in tensors.items()}
    pieces = [
        (name, view[at : at + SLICE]) for name, view in views.items()
        for at in range(0, max(len(view), 1), SLICE)
    ]  # fmt: skip
    with ThreadPoolExecutor() as threads:
        sums = list(threads.map(lambda piece: f"{zlib.crc32(piece[1]):08x}", pieces))
    found: dict[str, str] = {}
    for (name, _), value in zip(pieces, sums, strict=True):
        found[name] = found.get(name, "") + value
    return found


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.contiguous().flatten().view(torch.uint8)
    return memoryview(flat.numpy())  # pyright: ignore[reportArgumentType]


def _fingerprint(weights: Mapping[str, torch.Tensor]) -> str:
    """Of names, shapes, dtypes and 64 values of each weight, spread over it."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().flatten()
        value = value.view(torch.uint8) if value.element_size() == 1 else value
        sampled = value[:: max(len(value) // SAMPLED, 1)][:SAMPLED].cpu().contiguous()
        digest.update(f"{name} {tuple(weights[name].shape)} {weights[name].dtype}\n".encode())
        digest.update(_bytes(sampled))
    return digest.hexdigest()[:32]


def _named(recipe: Recipe) -> str:
    return f"{recipe.name} {hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]}"
