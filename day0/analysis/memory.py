"""The plan `memory`: which batches of which lengths fit beside the weights, and the longest one.

Counted as if weights and caches divided evenly over the machine's GPUs; what a rank really holds,
with what it has to repeat, is the parallel plan's subject.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.analysis.caches import bytes_at, entry_bytes, trunk
from day0.analysis.cost import stored_bytes
from day0.analysis.machine import Machine
from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.ir.weight import Tied, leaves

BATCHES = (1, 8, 32, 128)
CONTEXTS = (4096, 32_768, 131_072, 1_048_576)
BLOCK = 16  # tokens: what pages of attention kernels are multiples of
FAR = 2**30  # tokens that "no further token costs anything" is capped at


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Caches of a model under one recipe, alike ones once: (cache, bytes of an entry, how many)."""

    kinds: tuple[tuple[CacheSpec, int, int], ...]

    def bytes(self, tokens: int) -> int:
        """What one sequence of `tokens` tokens holds."""
        return sum(cache.entries(tokens) * size * times for cache, size, times in self.kinds)

    def longest(self, room: int, limit: int) -> int:
        """Tokens, at most `limit`, of one sequence that `room` bytes hold; 0 where none fits."""
        if self.bytes(1) > room:
            return 0
        low, high = 1, limit + 1  # low fits, high is beyond
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bytes(middle) <= room else (low, middle)
        return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`batch` sequences of `tokens` tokens: bytes of their caches and of all, and whether it fits
    in what the machine's GPUs have together."""

    tokens: int
    batch: int
    cache_bytes: int
    bytes: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """One way to hold the weights. `weights`: their bytes; `gpus`: how many of the machine's GPUs
    would hold them and one sequence of 4,096 tokens. `longest`: batch -> tokens each of its
    sequences may have, at most what the model states; 0 where not even the weights fit."""

    held_as: str
    weights: int
    gpus: int
    cells: tuple[Cell, ...]
    longest: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """`room`: bytes an engine fills of all GPUs, `workspace` bytes taken off. `ways`: weights in
    the recipe's formats, and as they are stored where that is another number of bytes.
    `equal_block`: tokens of the attention page that engines with one page size for attention and
    recurrent state derive (a page as large as the largest state; 0 without states or pages)."""

    machine: Machine
    room: int
    workspace: int
    ways: tuple[Fits, ...]
    equal_block: int
    host_bytes: int


def memory(model: Model, recipe: Recipe, machine: Machine, *, context: int | None) -> MemoryPlan:
    """`context`: the longest that the model states."""
    caches = held(model, recipe)
    ways = {f"recipe {recipe.name}": weight_bytes(model, recipe)}
    if any(formats.get(weight.spec.format).quantised for weight in model.weights.values()):
        ways["as stored"] = stored_weights(model)
    return MemoryPlan(
        machine=machine,
        room=room_of(machine) * machine.count,
        workspace=machine.assumed.workspace * machine.count,
        ways=tuple(fits(name, size, caches, machine, context) for name, size in ways.items()),
        equal_block=equal_block(model, recipe),
        host_bytes=weight_bytes(model, recipe, home="host"),
    )


def room_of(machine: Machine) -> int:
    """Bytes of one GPU for weights and caches."""
    return machine.usable - machine.assumed.workspace


def fits(held_as: str, weights: int, caches: Held, machine: Machine, context: int | None) -> Fits:
    """The grid for weights of so many bytes."""
    limit, room = context or FAR, room_of(machine) * machine.count
    cells = []
    for tokens in (tokens for tokens in CONTEXTS if tokens <= limit):
        one = caches.bytes(tokens)
        for batch in BATCHES:
            total = weights + batch * one
            cells.append(
                Cell(
                    tokens=tokens,
                    batch=batch,
                    cache_bytes=batch * one,
                    bytes=total,
                    fits=total <= room,
                )
            )
    longest = {batch: caches.longest((room - weights) // batch, limit) for batch in BATCHES}
    return Fits(
        held_as=held_as,
        weights=weights,
        gpus=-(-(weights + caches.bytes(CONTEXTS[0])) // room_of(machine)),
        cells=tuple(cells),
        longest=longest,
    )


def held(model: Model, recipe: Recipe) -> Held:
    """The trunk's caches."""
    kinds: dict[tuple[object, ...], list[CacheSpec]] = {}
    for cache in trunk(model):
        key = cache.growth, cache.every, cache.span, entry_bytes(cache, recipe)
        kinds.setdefault(key, []).append(cache)
    return Held(
        kinds=tuple((same[0], entry_bytes(same[0], recipe), len(same)) for same in kinds.values())
    )


def weight_bytes(model: Model, recipe: Recipe, *, home: str = "device") -> int:
    """Of the trunk's weights in the formats they run in; shared ones once, drafts not."""
    names = {name for op in model.graphs["main"].ops for _, name in op.weights}
    found = [model.weights[name] for name in names]
    return sum(
        stored_bytes(recipe.weight(weight), weight.spec.dims)
        for weight in found
        if weight.home == home and not isinstance(weight.source, Tied)
    )


def stored_weights(model: Model) -> int:
    """Of the same weights in the formats of the checkpoint, scales included."""
    names = {name for op in model.graphs["main"].ops for _, name in op.weights}
    sizes: dict[str, int] = {}
    for name in names:
        weight = model.weights[name]
        if weight.home != "device":
            continue
        for leaf, stack in leaves(weight.source):
            sizes[leaf.name] = stored_bytes(leaf.format, leaf.dims) * max(stack, 1)
    return sum(sizes.values())


def equal_block(model: Model, recipe: Recipe) -> int:
    """Tokens: ceil(largest state / K and V bytes of a token in a layer), up to a multiple of 16
    (field case 67). day0 itself keeps states in slots of their own."""
    found = trunk(model)
    states = [bytes_at(cache, recipe, 1) for cache in found if cache.growth == "per-sequence"]
    pages: dict[int, int] = {}
    for cache in found:
        if cache.growth == "per-token" and cache.role == "kv":
            pages[cache.layer] = pages.get(cache.layer, 0) + entry_bytes(cache, recipe)
    if not states or not pages:
        return 0
    tokens = -(-max(states) // max(pages.values()))
    return -(-tokens // BLOCK) * BLOCK
