"""config_groups of compressed-tensors and ModelOpt: weights, targets, activations, transforms."""

from day0.ir import format as formats
from day0.models.module_patterns import parse
from day0.models.quant_block import LINEAR, Block, Draft, KvScheme, Rule

# How a scheme was found or which kernel runs it; none changes what is stored.
OBSERVING = ("observer", "observer_kwargs", "actorder", "symmetric", "zp_dtype")
# Applied to weights while quantising; all other places need an operator at run time
# (compressed-tensors, transform/transform_args.py).
OFFLINE = ("weight_input", "weight_output")


def read(block: Block, draft: Draft) -> list[Rule]:
    """The rules of a block's config_groups; a group's own format goes before the block's."""
    whole = block.word("format")
    groups = block.block("config_groups")
    rules: list[Rule] = []
    for key in groups or ():
        group = groups.block(key) if groups else None
        if group is None:
            continue
        weights = group.block("weights")
        _activations(group, draft)
        targets = group.words("targets")
        name = _format(weights, group.word("format", default=whole), draft)
        named = tuple(target for target in targets if target not in LINEAR)
        rules.append(
            Rule(format=name, linear=not targets or len(named) < len(targets), targets=parse(named))
        )
    return rules


def kv_scheme(scheme: Block | None, draft: Draft) -> KvScheme | None:
    """An object that describes the cache as it would describe an activation."""
    if scheme is None:
        return None
    scheme.skip(*OBSERVING, "scale_dtype", "block_structure")
    bits, kind = scheme.number("num_bits") or 8, scheme.word("type", default="float")
    known = {(8, "float"): "fp8_e4m3", (8, "int"): "int8", (4, "float"): "nvfp4"}
    granularity = scheme.word("strategy", default="tensor")
    if size := scheme.number("group_size"):
        granularity = f"{granularity} of {size}"
    dynamic = bool(scheme.get("dynamic", False))
    if (bits, kind) not in known:
        draft.unread.append(f"{scheme.path('num_bits')}={bits} {kind}")
        return None
    return KvScheme(format=known[bits, kind], granularity=granularity, dynamic=dynamic)


def transforms(block: Block, draft: Draft) -> None:
    """Rotations: those folded into weights are a note, all others need an operator."""
    config = block.block("transform_config")
    groups = config.block("config_groups") if config else None
    for key in groups or ():
        scheme = groups.block(key) if groups else None
        if scheme is None:
            continue
        kind, size = scheme.get("type", "unknown"), scheme.get("head_dim")
        scheme.skip("precision", "randomize", "requires_grad", "block_wise", "lazy_load")
        places = [use.word("location") for use in scheme.blocks("apply")]
        online = sorted({place for place in places if place not in OFFLINE})
        described = f"transform {key}: {kind} of {size} at {', '.join(sorted(set(places)))}"
        if online:
            draft.online.append(f"{described}; at run time: {', '.join(online)}")
        else:
            draft.notes.append(f"{described}, folded into the weights")


def _activations(group: Block, draft: Draft) -> None:
    """Whether inputs are quantised with stored scales; nothing else of it is stored."""
    for key in ("input_activations", "output_activations"):
        scheme = group.block(key)
        if scheme is None:
            continue
        scheme.skip(*scheme)
        dynamic = scheme.get("dynamic", False)
        if key == "input_activations" and not draft.activations:
            # "local": scales of groups are computed, the tensor's global one is stored.
            draft.activations = "dynamic" if dynamic is True else "static"


def _format(weights: Block | None, packing: str, draft: Draft) -> str | None:
    """Name of the format that a weight scheme describes; None and a report for an unknown one."""
    if weights is None:
        return None
    weights.skip(*OBSERVING, "dynamic", "scale_dtype")
    bits, kind = weights.number("num_bits"), weights.word("type", default="int")
    size, block = weights.number("group_size"), weights.sizes("block_structure")
    strategy = weights.word("strategy", default="group" if size else "tensor")
    name = None
    if kind == "float" and bits == 8:
        name = {"tensor": "fp8_tensor", "channel": "fp8_channel"}.get(strategy)
        if strategy == "block" and block:
            name = formats.block_name(*block)
        elif strategy in ("group", "tensor_group") and size:
            name = "mxfp8" if size == 32 else formats.block_name(1, size)
    elif kind == "float" and bits == 4:
        # ModelOpt writes no packing word and multiplies by its global scale.
        name = {16: "nvfp4_ct" if packing.startswith("nvfp4") else "nvfp4", 32: "mxfp4"}.get(
            size or 0
        )
    elif kind == "int" and packing == "pack-quantized":
        name = f"int{bits}_{f'g{size}' if size and size > 0 else 'channel'}"
    elif kind == "int" and bits == 8:
        name = {"tensor": "int8_tensor", "channel": "int8_channel"}.get(strategy)
    if name is None or not formats.is_known(name):
        name = None
        draft.unread.append(
            f"{weights.path('num_bits')}={bits} {kind} {strategy} {packing}".strip()
        )
    return name
