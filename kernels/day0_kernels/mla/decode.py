"""Latent attention over pages, absorbed: two products of torch around one attention kernel."""

import torch

from day0_kernels.common.arguments import check_shape
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.mla.core import launch_of, run, split_shapes
from day0_kernels.mla.launch import AttendLaunch


def buffer_shapes(
    launch: AttendLaunch, *, num_rows: int, num_heads: int, latent_dim: int, dtype: torch.dtype,
    fp8: bool,
) -> Shapes:  # fmt: skip
    """Shape and dtype of every scratch tensor; the attention's own come first."""
    each = (num_heads, num_rows, latent_dim)
    own = split_shapes(launch, num_rows=num_rows, num_heads=num_heads, latent_dim=latent_dim)
    half = {"q_half": (each, torch.float16)} if fp8 and dtype == torch.bfloat16 else {}
    return {**own, "q_latent": (each, dtype), "mixed": (each, dtype), **half}


def workspace_bytes(
    q: torch.Tensor, latent_pages: torch.Tensor, table: torch.Tensor,
    selected: torch.Tensor | None, *, num_heads: int, window: int = 0,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `mla_paged` (or its sparse twin) needs for these tensors."""
    rows = q.shape[0]
    launch = launch_of(
        q.dtype, latent_pages, table, selected, num_rows=rows, num_heads=num_heads, window=window
    )
    shapes = buffer_shapes(
        launch, num_rows=rows, num_heads=num_heads, latent_dim=latent_pages.shape[2],
        dtype=q.dtype, fp8=latent_pages.dtype == torch.float8_e4m3fn,
    )  # fmt: skip
    return total_bytes(shapes)


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
    latent_scale_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    window: int = 0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]; see paged.py. The host is asked nothing. `workspace` (uint8) holds the
    scratch, without it scratch is allocated. Raises ValueError for a wrong shape."""
    through(
        q, w_uk, w_uv, latent_pages, table, positions, seq, y, k_rope_pages, latent_scale_pages,
        sink, None, num_heads=num_heads, nope_dim=nope_dim, rope_dim=rope_dim,
        value_dim=value_dim, latent_dim=latent_dim, scale=scale, window=window,
        workspace=workspace,
    )  # fmt: skip


def through(
    q: torch.Tensor, w_uk: torch.Tensor, w_uv: torch.Tensor, latent_pages: torch.Tensor,
    table: torch.Tensor, positions: torch.Tensor, seq: torch.Tensor, y: torch.Tensor,
    k_rope_pages: torch.Tensor | None, latent_scale_pages: torch.Tensor | None,
    sink: torch.Tensor | None, selected: torch.Tensor | None, *, num_heads: int, nope_dim: int,
    rope_dim: int, value_dim: int, latent_dim: int, scale: float, window: int,
    workspace: torch.Tensor | None,
) -> None:  # fmt: skip
    """Queries over to the latent's space, the attention over all or the `selected` entries, and
    back."""
    rows = q.shape[0]
    check_shape("q", q, "T, n*(dn+dr)", (rows, num_heads * (nope_dim + rope_dim)))
    check_shape("y", y, "T, n*dv", (rows, num_heads * value_dim))
    check_shape("w_uk", w_uk, "n*dn, r", (num_heads * nope_dim, latent_dim))
    check_shape("w_uv", w_uv, "n*dv, r", (num_heads * value_dim, latent_dim))
    if rows == 0:
        return
    launch = launch_of(
        q.dtype, latent_pages, table, selected, num_rows=rows, num_heads=num_heads, window=window
    )
    sizes = {"num_rows": rows, "num_heads": num_heads, "latent_dim": latent_dim}
    fp8 = latent_scale_pages is not None
    shapes = buffer_shapes(launch, **sizes, dtype=q.dtype, fp8=fp8)
    if workspace is None:
        workspace = torch.empty(total_bytes(shapes), dtype=torch.uint8, device=q.device)
    part = cut(shapes, workspace, q.device)
    heads = q.view(rows, num_heads, nope_dim + rope_dim)
    up_keys = w_uk.view(num_heads, nope_dim, latent_dim)
    torch.bmm(heads[..., :nope_dim].transpose(0, 1), up_keys, out=part["q_latent"])
    q_latent = part["q_latent"]
    if "q_half" in part:
        q_latent = part["q_half"].copy_(q_latent)
    run(
        q_latent.transpose(0, 1), latent_pages, table, positions, seq,
        part["mixed"].transpose(0, 1), heads[..., nope_dim:] if rope_dim else None, k_rope_pages,
        latent_scale_pages, sink, selected, scale=scale, window=window, workspace=workspace,
        launch=launch,
    )  # fmt: skip
    up_values = w_uv.view(num_heads, value_dim, latent_dim)
    by_head = y.view(rows, num_heads, value_dim).transpose(0, 1)
    torch.bmm(part["mixed"], up_values.mT, out=by_head)
