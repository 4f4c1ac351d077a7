"""The intermediate tensors of the operator; needs neither triton nor a GPU."""

import torch

from day0_kernels.common.workspace import Shapes, total_bytes
from day0_kernels.experts.launch import block_m
from day0_kernels.moe_route.launch import max_tiles, sort_workspace_bytes

FP8 = torch.float8_e4m3fn


def scratch(
    *, num_tokens: int, num_experts: int, top_k: int, channels: int, inner: int,
    dtype: torch.dtype, fp8: bool,
) -> Shapes:  # fmt: skip
    """Names, shapes and dtypes of the intermediate tensors."""
    rows = num_tokens * top_k
    tile = block_m(num_rows=rows, num_experts=num_experts)
    most = max_tiles(num_rows=rows, num_experts=num_experts, block_m=tile)
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "order": ((rows,), torch.int32),
        "offsets": ((num_experts + 1,), torch.int32),
        "tiles": ((most, 4), torch.int32),
        "counts": ((sort_workspace_bytes(num_rows=rows, num_experts=num_experts),), torch.uint8),
        "h": ((rows, inner), FP8 if fp8 else dtype),
        "partial": ((rows, channels), dtype),
    }
    if fp8:
        shapes["x"] = ((num_tokens, channels), FP8)
        shapes["x_scale"] = ((num_tokens, -(-channels // 128)), torch.float32)
        shapes["h_scale"] = ((rows, -(-inner // 128)), torch.float32)
    return shapes


def workspace_bytes(
    *, num_tokens: int, num_experts: int, top_k: int, channels: int, inner: int,
    dtype: torch.dtype = torch.bfloat16, fp8: bool = False,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `experts` needs for these sizes."""
    return total_bytes(
        scratch(
            num_tokens=num_tokens, num_experts=num_experts, top_k=top_k, channels=channels,
            inner=inner, dtype=dtype, fp8=fp8,
        )
    )  # fmt: skip
