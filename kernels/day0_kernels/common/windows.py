"""How a delta rule's prefill is cut: chunk slots in windows of bounded scratch, scans in segments.

An op's chunk kernel fills `Buffers` for one window; `solve` and `scan` turn them into outputs and
states. Layouts in scan.py.
"""

from dataclasses import dataclass

import torch
import triton

from day0_kernels.common.scan import scan_kernel
from day0_kernels.common.segments import chain_kernel, transition_kernel
from day0_kernels.common.solve import solve_kernel
from day0_kernels.common.workspace import Shapes

NUM_MULTIPROCESSORS = 132
WINDOW_BYTES = 2 << 30  # chunk-local results of a long batch are made in windows of about this size


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLaunch:
    """Tile sizes and warps of a prefill; `segments` > 1 cuts every sequence for more programs.

    `window` is the number of chunk slots whose local results are in memory at one time;
    `chunk_registers` and `solve_registers` bound the registers of a thread (None: they are not), so
    that more programs run at a time.
    """

    chunk: int
    chunk_warps: int
    chunk_registers: int | None
    solve_registers: int | None
    block_v: int
    scan_warps: int
    scan_stages: int
    segments: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of one prefill; `scalar`: one decay per head, else one per key channel."""

    num_tokens: int
    num_sequences: int
    num_heads: int
    num_key_heads: int
    head_dim: int
    value_dim: int
    scalar: bool
    exact: bool

    def slots(self, chunk: int) -> int:
        """Chunk slots that hold any ragged batch of these sizes."""
        return -(-self.num_tokens // chunk) + self.num_sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """Scratch of one window; shapes in scan.py."""

    w: torch.Tensor
    qg: torch.Tensor
    kg: torch.Tensor
    ut: torch.Tensor
    mix: torch.Tensor
    mixing: torch.Tensor
    decay: torch.Tensor
    scale: torch.Tensor
    carry: torch.Tensor
    segment_a: torch.Tensor
    segment_b: torch.Tensor
    segment_state: torch.Tensor


def scan_launch(sizes: Sizes) -> ScanLaunch:
    """Tuned on one NVIDIA H200 (132 multiprocessors), 2026-11-30; other chips get the same."""
    chunk = 32 if sizes.exact else 64
    element = 4 if sizes.exact else 2
    slots = sizes.slots(chunk)
    per_head = sizes.head_dim + sizes.value_dim + 2 * chunk
    slot_bytes = sizes.num_heads * per_head + 2 * sizes.num_key_heads * sizes.head_dim
    window = max(min(slots, WINDOW_BYTES // (slot_bytes * chunk * element)), 64)
    block_v, scan_warps = _scan_tile(sizes)
    programs = sizes.num_heads * max(sizes.value_dim // block_v, 1) * sizes.num_sequences
    per_sequence = min(slots, window) // max(sizes.num_sequences, 1)
    segments = 1
    # a segment costs a second scan: worth it while half of the chip would idle and it is long
    while programs * segments <= NUM_MULTIPROCESSORS // 4 and per_sequence >= 32 * segments:
        segments *= 2
    return ScanLaunch(
        chunk=chunk,
        chunk_warps=4,
        chunk_registers=128 if sizes.scalar and not sizes.exact else None,
        solve_registers=None if sizes.exact else 128,
        block_v=block_v,
        scan_warps=scan_warps,
        scan_stages=3,
        segments=segments,
        window=window,
    )


def _scan_tile(sizes: Sizes) -> tuple[int, int]:
    """(value columns, warps) of a scan's program; a multiprocessor has memory for one program.

    64 columns a program run on twice the multiprocessors, unless that makes them queue.
    """
    if sizes.exact:
        return min(32, sizes.value_dim, sizes.head_dim), 4
    block_v = min(64, sizes.value_dim, sizes.head_dim)
    heads = sizes.num_heads * sizes.num_sequences
    rounds = -(-heads * sizes.value_dim // block_v // NUM_MULTIPROCESSORS)
    if sizes.value_dim == sizes.head_dim == 128 and rounds > -(-heads // NUM_MULTIPROCESSORS):
        return 128, 8
    return block_v, 4


def buffer_shapes(launch: ScanLaunch, sizes: Sizes) -> Shapes:
    """Shape and dtype of every scratch tensor that the scan reads or writes."""
    dtype = torch.float32 if sizes.exact else torch.float16
    at = (launch.window, sizes.num_heads)
    at_key = (launch.window, sizes.num_key_heads)
    rows, dk, dv = launch.chunk, sizes.head_dim, sizes.value_dim
    parts = launch.segments if launch.segments > 1 else 0
    split = (sizes.num_sequences, parts, sizes.num_heads)
    return {
        "w": ((*at, rows, dk), dtype),
        "qg": ((*at_key, rows, dk), dtype),
        "kg": ((*at_key, rows, dk), dtype),
        "ut": ((*at, dv, rows), dtype),
        "mix": ((*at, rows, rows), dtype),
        "mixing": ((*at, rows, rows), dtype),
        "decay": ((*at, rows if sizes.scalar else dk), torch.float32),
        "scale": (at, torch.float32),
        "carry": ((sizes.num_sequences, sizes.num_heads, dk, dv), torch.float32),
        "segment_a": ((*split, dk, dk), torch.float32),
        "segment_b": ((*split, dk, dv), torch.float32),
        "segment_state": ((*split, dk, dv), torch.float32),
    }


def solve(
    buffers: Buffers,
    v: torch.Tensor,
    beta: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    sizes: Sizes,
    launch: ScanLaunch,
    beta_scale: float,
    first: int,
    count: int,
) -> None:
    """The triangular systems of a window; `kg` holds bare keys in the scalar form."""
    heads = sizes.num_heads
    keys = buffers.kg if sizes.scalar else buffers.w
    solve_kernel[(count * heads,)](
        v, beta, cu_seqlens, keys, buffers.decay, buffers.w, buffers.mixing, buffers.ut,
        buffers.scale, v.stride(0), beta.stride(0), sizes.num_sequences, first, beta_scale,
        H=heads, SHARE=heads // sizes.num_key_heads, DK=sizes.head_dim, DV=sizes.value_dim,
        BT=launch.chunk, BC=min(64, sizes.head_dim, sizes.value_dim), SCALAR=sizes.scalar,
        EXACT=sizes.exact, num_warps=launch.chunk_warps, maxnreg=launch.solve_registers,
    )  # fmt: skip


def transition(
    buffers: Buffers,
    transition_a: torch.Tensor,
    transition_b: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    sizes: Sizes,
    launch: ScanLaunch,
    first: int,
    count: int,
) -> None:
    """What the window's segments make of any state; layouts in segments.py."""
    both = triton.cdiv(sizes.value_dim + sizes.head_dim, launch.block_v)
    transition_kernel[(both, sizes.num_heads, sizes.num_sequences * launch.segments)](
        buffers.w, buffers.kg, buffers.ut, buffers.decay, buffers.scale, transition_a,
        transition_b, cu_seqlens, first, count, H=sizes.num_heads, DK=sizes.head_dim,
        DV=sizes.value_dim, BT=launch.chunk, BV=launch.block_v, S=launch.segments,
        SHARE=sizes.num_heads // sizes.num_key_heads, SCALAR=sizes.scalar, EXACT=sizes.exact,
        num_warps=launch.scan_warps, num_stages=launch.scan_stages,
    )  # fmt: skip


def scan(
    buffers: Buffers,
    state: torch.Tensor,
    o: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    sizes: Sizes,
    launch: ScanLaunch,
    first: int,
    count: int,
) -> None:
    """Outputs and states of the window of `count` chunk slots from `first` on."""
    heads, sequences = sizes.num_heads, sizes.num_sequences
    dims = {
        "H": heads, "DK": sizes.head_dim, "DV": sizes.value_dim, "BT": launch.chunk,
        "BV": launch.block_v, "S": launch.segments, "EXACT": sizes.exact,
    }  # fmt: skip
    form = {"SHARE": heads // sizes.num_key_heads, "SCALAR": sizes.scalar}
    tiles = triton.cdiv(sizes.value_dim, launch.block_v)
    if launch.segments > 1:
        transition(
            buffers, buffers.segment_a, buffers.segment_b, cu_seqlens, sizes=sizes, launch=launch,
            first=first, count=count,
        )  # fmt: skip
        chain_kernel[(tiles, heads, sequences)](
            buffers.segment_a, buffers.segment_b, state, buffers.carry, buffers.segment_state,
            cu_seqlens, slot, start, state.stride(0), state.stride(1), first, count,
            num_warps=launch.scan_warps, **dims,
        )  # fmt: skip
    scan_kernel[(tiles, heads, sequences * launch.segments)](
        buffers.w, buffers.qg, buffers.kg, buffers.ut, buffers.mix, buffers.decay, buffers.scale,
        state, buffers.carry, buffers.segment_state, o, cu_seqlens, slot, start,
        state.stride(0), state.stride(1), o.stride(0), first, count, sizes.head_dim**-0.5,
        num_warps=launch.scan_warps, num_stages=launch.scan_stages, **dims, **form,
    )  # fmt: skip
