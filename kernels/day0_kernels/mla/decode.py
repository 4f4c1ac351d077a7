"""Latent attention over pages, absorbed: two products of torch around one attention kernel."""

import torch
import triton

from day0_kernels.common.arguments import capability, check_power_of_two, check_shape
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.mla.attend import attend_kernel, merge_kernel
from day0_kernels.mla.launch import AttendLaunch, attend_launch


def buffer_shapes(
    launch: AttendLaunch, *, num_rows: int, num_heads: int, latent_dim: int, dtype: torch.dtype
) -> Shapes:
    """Shape and dtype of every scratch tensor."""
    each = (num_heads, num_rows, latent_dim)
    split = launch.splits if launch.splits > 1 else 0
    return {
        "q_latent": (each, dtype),
        "mixed": (each, dtype),
        "part": ((split, *each), torch.float32),
        "lse": ((split, num_heads, num_rows), torch.float32),
    }


def workspace_bytes(
    *, num_rows: int, num_heads: int, latent_dim: int, most_entries: int, dtype: torch.dtype,
    capability: tuple[int, int],
) -> int:  # fmt: skip
    """Bytes of `workspace` that `mla_paged` needs for these sizes."""
    launch = attend_launch(
        capability, num_rows=num_rows, num_heads=num_heads, most_entries=most_entries,
        itemsize=dtype.itemsize,
    )  # fmt: skip
    return total_bytes(
        buffer_shapes(
            launch, num_rows=num_rows, num_heads=num_heads, latent_dim=latent_dim, dtype=dtype
        )
    )


def mla_paged(
    q: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    y: torch.Tensor,
    k_rope_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    selected: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    window: int = 0,
    num_selected: int = 0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]; see paged.py. The host is asked nothing. `workspace` (uint8) holds the
    scratch, without it scratch is allocated. Raises ValueError for a wrong shape."""
    rows = q.shape[0]
    size = latent_pages.shape[1]
    most = num_selected or min(table.shape[1] * size, window or table.shape[1] * size)
    launch = attend_launch(
        capability(q), num_rows=rows, num_heads=num_heads, most_entries=most,
        itemsize=latent_pages.element_size(),
    )  # fmt: skip
    run(
        q, w_uk, w_uv, latent_pages, table, positions, seq, y, k_rope_pages, sink, selected,
        num_heads=num_heads, nope_dim=nope_dim, rope_dim=rope_dim, value_dim=value_dim,
        latent_dim=latent_dim, scale=scale, window=window, num_selected=num_selected,
        workspace=workspace, launch=launch,
    )  # fmt: skip


def run(
    q: torch.Tensor, w_uk: torch.Tensor, w_uv: torch.Tensor, latent_pages: torch.Tensor,
    table: torch.Tensor, positions: torch.Tensor, seq: torch.Tensor, y: torch.Tensor,
    k_rope_pages: torch.Tensor | None, sink: torch.Tensor | None, selected: torch.Tensor | None, *,
    num_heads: int, nope_dim: int, rope_dim: int, value_dim: int, latent_dim: int, scale: float,
    window: int, num_selected: int, workspace: torch.Tensor | None, launch: AttendLaunch,
) -> None:  # fmt: skip
    """`mla_paged` by a given launch."""
    rows, (_, size, _) = q.shape[0], latent_pages.shape
    check_power_of_two("latent_dim", latent_dim, 16, 512)
    check_power_of_two("rope_dim", rope_dim or 16, 16, 128)
    check_shape("q", q, "T, n*(dn+dr)", (rows, num_heads * (nope_dim + rope_dim)))
    check_shape("y", y, "T, n*dv", (rows, num_heads * value_dim))
    check_shape("latent_pages", latent_pages, "P, S, r", (*latent_pages.shape[:2], latent_dim))
    if selected is not None:
        check_shape("selected", selected, "T, k", (rows, num_selected))
    if rows == 0:
        return
    shapes = buffer_shapes(
        launch, num_rows=rows, num_heads=num_heads, latent_dim=latent_dim, dtype=q.dtype
    )
    part = cut(shapes, workspace, q.device)
    heads = q.view(rows, num_heads, nope_dim + rope_dim)
    up_keys = w_uk.view(num_heads, nope_dim, latent_dim)
    torch.bmm(heads[..., :nope_dim].transpose(0, 1), up_keys, out=part["q_latent"])
    split = launch.splits > 1
    out = part["part"] if split else part["mixed"][None]
    # an absent tensor's pointer is never read
    k_rope = latent_pages if k_rope_pages is None else k_rope_pages
    attend_kernel[(rows, triton.cdiv(num_heads, launch.block_heads), launch.splits)](
        part["q_latent"], q, latent_pages, k_rope, table, positions, seq,
        positions if selected is None else selected, q if sink is None else sink, out, part["lse"],
        *part["q_latent"].stride()[:2], q.stride(0), *latent_pages.stride()[:2],
        *k_rope.stride()[:2], table.stride(0), 0 if selected is None else selected.stride(0),
        *out.stride()[:3], rows, scale * 1.4426950408889634,
        N=num_heads, BH=launch.block_heads, R=latent_dim, DN=nope_dim, DR=rope_dim, S=size,
        BS=launch.block_entries, K=num_selected, WINDOW=window, SPLITS=launch.splits,
        SINK=sink is not None, num_warps=launch.num_warps, num_stages=launch.num_stages,
    )  # fmt: skip
    if split:
        merge_kernel[(rows, num_heads)](
            part["part"], part["lse"], part["mixed"], *part["part"].stride()[:3],
            *part["mixed"].stride()[:2], rows, N=num_heads, R=latent_dim, SPLITS=launch.splits,
            PS=triton.next_power_of_2(launch.splits), num_warps=4,
        )  # fmt: skip
    up_values = w_uv.view(num_heads, value_dim, latent_dim)
    by_head = y.view(rows, num_heads, value_dim).transpose(0, 1)
    torch.bmm(part["mixed"], up_values.mT, out=by_head)
