"""Whether a model and its caches fit the device, told before any weight is read."""

import os
from collections.abc import Mapping
from itertools import accumulate

import torch

from day0.errors import DoesNotFit
from day0.ir.recipe import RECIPES
from day0.runtime.limits import Sizes
from day0.runtime.memory import needs, weights_by_layer
from day0.runtime.opening import Opened
from day0.runtime.session import lowered_for
from day0.validate.subject import EXACT

# Of the free memory: the rest is for values between operators and what libraries hold.
USED = 0.9
# Two recipes of a checked model are held at once, the exact one and what it is compared with.
CHECKED = 0.4


def free_bytes(device: str) -> int:
    """What can still be allocated there."""
    if device == "cpu":
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return torch.cuda.mem_get_info(device)[0]


def must_fit(opened: Opened, sizes: Sizes) -> None:
    """DoesNotFit names what would: fewer layers, or smaller points of the grid."""
    lowered = lowered_for(
        opened.model, opened.recipe, opened.backend, device=opened.device, without=opened.without
    )
    weights = weights_by_layer(lowered.values(), opened.recipe)
    caches = needs(lowered["prefill"], opened.recipe, opened.device).caches(sizes)
    room = int(USED * free_bytes(opened.device))
    total = sum(weights.values())
    if total + caches <= room:
        return
    said = (
        f"weights of {_gib(total)} and caches of {_gib(caches)} for {sizes.tokens:,} tokens do not "
        f"fit {_gib(room)} of {opened.device}"
    )
    layers = layers_within(weights, room - caches)
    if total <= room:
        share = (room - total) / max(caches, 1)
        raise DoesNotFit(
            said, hint=f"--grid with at most {int(sizes.tokens * share):,} tokens at once fits"
        )
    fits = f"--layers {layers} fits" if layers else "take a smaller --grid and --layers 1"
    raise DoesNotFit(said, hint=f"{fits}; --only cells checks as many layers as fit")


def layers_to_check(opened: Opened) -> int | None:
    """How many first layers fit in the exact recipe beside another one; None for all of them."""
    recipe = RECIPES[EXACT]
    lowered = lowered_for(
        opened.model, recipe, opened.backend, device=opened.device, without=opened.without
    )
    weights = weights_by_layer(lowered.values(), recipe)
    room = int(CHECKED * free_bytes(opened.device))
    if sum(weights.values()) <= room:
        return None
    layers = layers_within(weights, room)
    if not layers:
        raise DoesNotFit(
            f"not even one layer in {EXACT} fits {_gib(room)} of {opened.device} "
            f"beside a second recipe",
            hint="--only speed leaves the cells out",
        )
    return layers


def layers_within(weights: Mapping[int, int], room: int) -> int:
    """The largest number of first layers whose weights, with those outside, fit."""
    numbered = [weights[layer] for layer in sorted(weights) if layer >= 0]
    sums = accumulate(numbered, initial=weights.get(-1, 0))
    return sum(total <= room for total in list(sums)[1:])


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
