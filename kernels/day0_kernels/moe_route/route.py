"""Scores, selection and weights of a block of tokens, all in registers.

Letters: BT tokens of a program, G groups of SIZE experts, padded to GP and SP powers of two;
K chosen, KP its power of two. A place in the padded row is group * SP + member.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.moe_route.launch import RouteLaunch, power_of_two, route_launch
from day0_kernels.moe_route.reference import SCORES

NEGATIVE = tl.constexpr(float("-inf"))


@triton.jit
def score_of(x, largest, total, SCORE: tl.constexpr):
    """The score of logits `x`; `largest` and `total` are the softmax's maximum and sum."""
    if SCORE == "softmax":
        return tl.exp(x - largest) / total
    elif SCORE == "sigmoid":
        return 1.0 / (1.0 + tl.exp(-x))
    elif SCORE == "sqrtsoftplus":
        # log1p(u - 1) without losing the small part of u = 1 + exp(-|x|)
        small = tl.exp(-tl.abs(x))
        u = 1.0 + small
        log1p = tl.where(u == 1.0, small, tl.log(u) * small / tl.where(u == 1.0, 1.0, u - 1.0))
        return tl.sqrt(tl.maximum(x, 0.0) + log1p)
    else:
        return x


@triton.jit
def limited(choice, G: tl.constexpr, TOP_G: tl.constexpr, GP: tl.constexpr, SP: tl.constexpr,
            TOP2: tl.constexpr, BT: tl.constexpr):  # fmt: skip
    """`choice` [BT, GP * SP] with -inf outside the TOP_G best groups."""
    grouped = tl.reshape(choice, (BT, GP, SP))
    value, at = tl.max(grouped, axis=2, return_indices=True)
    if TOP2:
        member = tl.arange(0, SP)[None, None, :]
        value += tl.max(tl.where(member == at[:, :, None], NEGATIVE, grouped), axis=2)
    group = tl.arange(0, GP)[None, :]
    value = tl.where(group < G, value, NEGATIVE)
    kept = tl.zeros((BT, GP), dtype=tl.int32)
    for _ in tl.static_range(0, TOP_G):
        _, first = tl.max(value, axis=1, return_indices=True)
        taken = group == first[:, None]
        kept = tl.where(taken, 1, kept)
        value = tl.where(taken, NEGATIVE, value)
    return tl.reshape(tl.where(kept[:, :, None] > 0, grouped, NEGATIVE), (BT, GP * SP))


@triton.jit
def route_kernel(
    logits, ids, bias, table, experts, weights, T, stride_logits, eps, scale,
    E: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, G: tl.constexpr, TOP_G: tl.constexpr,
    GP: tl.constexpr, SP: tl.constexpr, BT: tl.constexpr, SCORE: tl.constexpr, TOP2: tl.constexpr,
    RENORMALISE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_TABLE: tl.constexpr,
):  # fmt: skip
    """Grid (T / BT,)."""
    SIZE: tl.constexpr = E // G
    o_t = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    o_k = tl.arange(0, KP)
    m_t = o_t < T
    largest = tl.zeros((BT,), dtype=tl.float32)
    total = tl.zeros((BT,), dtype=tl.float32)
    place = tl.arange(0, GP * SP)
    column = (place // SP) * SIZE + place % SP
    m_e = (place // SP < G) & (place % SP < SIZE)
    if SCORE == "softmax" or not HAS_TABLE:
        x = tl.load(logits + o_t[:, None] * stride_logits + column[None, :],
                    mask=m_t[:, None] & m_e[None, :], other=NEGATIVE).to(tl.float32)  # fmt: skip
        if SCORE == "softmax":
            largest = tl.where(m_t, tl.max(x, axis=1), 0.0)
            total = tl.sum(tl.exp(x - largest[:, None]), axis=1)
            total = tl.where(m_t, total, 1.0)
    if HAS_TABLE:
        token = tl.load(ids + o_t, mask=m_t, other=0).to(tl.int64)
        chosen = tl.load(table + token[:, None] * K + o_k[None, :],
                         mask=m_t[:, None] & (o_k < K)[None, :], other=0).to(tl.int32)  # fmt: skip
    else:
        choice = score_of(x, largest[:, None], total[:, None], SCORE)
        if HAS_BIAS:
            choice += tl.load(bias + column, mask=m_e, other=0.0).to(tl.float32)[None, :]
        choice = tl.where(m_e[None, :], choice, NEGATIVE)
        if G > 1:
            choice = limited(choice, G, TOP_G, GP, SP, TOP2, BT)
        chosen = tl.zeros((BT, KP), dtype=tl.int32)
        for j in tl.static_range(0, K):
            _, at = tl.max(choice, axis=1, return_indices=True)
            chosen = tl.where(o_k[None, :] == j, at[:, None], chosen)
            choice = tl.where(place[None, :] == at[:, None], NEGATIVE, choice)
        chosen = (chosen // SP) * SIZE + chosen % SP
    m_k = m_t[:, None] & (o_k < K)[None, :]
    # read again: the row is in cache, and no value has to be carried through the selection
    picked = tl.load(logits + o_t[:, None] * stride_logits + chosen, mask=m_k, other=0.0)
    picked = picked.to(tl.float32)
    if SCORE == "topk_softmax":
        picked = tl.where(m_k, picked, NEGATIVE)
        w = tl.exp(picked - tl.where(m_t, tl.max(picked, axis=1), 0.0)[:, None])
        w /= tl.where(m_t, tl.sum(w, axis=1), 1.0)[:, None]
    else:
        w = score_of(picked, largest[:, None], total[:, None], SCORE)
    if RENORMALISE:
        whole = tl.sum(tl.where(m_k, w, 0.0), axis=1) + eps
        w /= tl.where(m_t, whole, 1.0)[:, None]
    at = o_t[:, None] * K + o_k[None, :]
    tl.store(experts + at, chosen, mask=m_k)
    tl.store(weights + at, w * scale, mask=m_k)


def check(logits, experts, weights, ids, bias, table, score, top_k, num_groups, top_groups,
          group_score) -> None:  # fmt: skip
    """Raise ValueError for what the kernels cannot take."""
    check_choice("score", score, SCORES)
    check_choice("group_score", group_score, ("top2", "max"))
    tokens, num_experts = logits.shape
    check_shape("logits", logits, "T, E", (tokens, num_experts))
    check_shape("experts", experts, "T, k", (tokens, top_k))
    check_shape("weights", weights, "T, k", (tokens, top_k))
    if not experts.is_contiguous() or not weights.is_contiguous():
        raise ValueError("experts and weights must be contiguous")
    if num_experts % num_groups:
        raise ValueError(f"num_groups must divide {num_experts} experts, got {num_groups}")
    available = num_experts // num_groups * (top_groups if num_groups > 1 else 1)
    if not 1 <= top_k <= available:
        raise ValueError(f"top_k must be from 1 to {available}, the experts kept, got {top_k}")
    if (ids is None) != (table is None):
        raise ValueError("ids and table must be given together")
    if bias is not None:
        check_shape("bias", bias, "E", (num_experts,))
    if table is not None:
        check_shape("table", table, "V, k", (table.shape[0], top_k))


def constants(logits, bias, table, score, top_k, num_groups, top_groups, group_score,
              renormalise) -> dict[str, object]:  # fmt: skip
    """The compile-time arguments that follow from shapes and attributes."""
    num_experts = logits.shape[1]
    return {
        "E": num_experts,
        "K": top_k,
        "KP": power_of_two(top_k),
        "G": num_groups,
        "TOP_G": min(top_groups, num_groups),
        "GP": power_of_two(num_groups),
        "SP": power_of_two(num_experts // num_groups),
        "SCORE": score,
        "TOP2": group_score == "top2" and num_experts > num_groups,
        "RENORMALISE": renormalise,
        "HAS_BIAS": bias is not None,
        "HAS_TABLE": table is not None,
    }


def moe_route(
    logits: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    table: torch.Tensor | None = None,
    *,
    score: str,
    top_k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    group_score: str = "top2",
    renormalise: bool,
    renormalise_eps: float = 0.0,
    scale: float = 1.0,
) -> None:
    """Write `experts` int32 [T, k] and `weights` fp32 [T, k]; see reference.py.

    One launch, nothing allocated. Raises ValueError for a wrong shape, score or group count.
    """
    check(logits, experts, weights, ids, bias, table, score, top_k, num_groups, top_groups,
          group_score)  # fmt: skip
    if logits.shape[0] == 0:
        return
    run(logits, experts, weights, ids, bias, table, renormalise_eps, scale,
        constants(logits, bias, table, score, top_k, num_groups, top_groups, group_score,
                  renormalise))  # fmt: skip


def run(logits, experts, weights, ids, bias, table, eps, scale, flags,
        config: RouteLaunch | None = None) -> None:  # fmt: skip
    """Choose and start the kernel; the sweep passes its own `config`."""
    tokens = logits.shape[0]
    config = config or route_launch(num_tokens=tokens, padded=flags["GP"] * flags["SP"])
    route_kernel[(triton.cdiv(tokens, config.block_t),)](
        logits, ids, bias, table, experts, weights, tokens, logits.stride(0), eps, scale,
        BT=config.block_t, num_warps=config.num_warps, **flags,
    )  # fmt: skip
