"""Kimi-K3's decoder in straightforward torch: whole sequences, no caches, one layer after another.

Written from the published facts (field notes on the vLLM, SGLang and CANN code of the model), apart
from day0's mechanisms and definitions, so that both can be wrong only in different ways.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional as F

Tensors = Mapping[str, torch.Tensor]
# OCP MX v1.0: values of the codes 0 to 7; 8 to 15 are their negatives.
CODES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


class PlainKimiK3:
    """`config`: the text words; `tensors`: the file's, in fp32 or packed. `latent_eps`: of the two
    latent norms, on which the published loaders disagree (1e-6, or rms_norm_eps). `margin`: the
    least distance so far between a score that was chosen and one that was not."""

    def __init__(
        self, config: Mapping[str, Any], tensors: Tensors, latent_eps: float = 1e-6
    ) -> None:
        self.config = config
        self.tensors = tensors
        self.eps = config["rms_norm_eps"]
        self.latent_eps = latent_eps
        self.margin = float("inf")

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """[T] ids -> [T, V]."""
        return self.hidden(ids) @ self.get("language_model.lm_head.weight").T

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """[T] ids -> [T, H] after the final norm."""
        stem = "language_model.model."
        prefix, blocks = self.get(f"{stem}embed_tokens.weight")[ids], []
        for layer in range(self.config["num_hidden_layers"]):
            at = f"{stem}layers.{layer}."
            mixed = self.mix([*blocks, prefix], f"{at}self_attention_res")
            fresh = layer % self.config["attn_res_block_size"] == 0
            if fresh:
                blocks.append(prefix)
            x = self.norm(mixed, f"{at}input_layernorm")
            kda = layer + 1 in self.config["linear_attn_config"]["kda_layers"]
            y = (self.kda if kda else self.mla)(x, f"{at}self_attn.")
            prefix = y if fresh else prefix + y
            mixed = self.mix([*blocks, prefix], f"{at}mlp_res")
            x = self.norm(mixed, f"{at}post_attention_layernorm")
            dense = layer < self.config["first_k_dense_replace"]
            y = self.mlp(x, f"{at}mlp.") if dense else self.moe(x, f"{at}block_sparse_moe.")
            prefix = prefix + y
        return self.norm(self.mix([*blocks, prefix], f"{stem}output_attn_res"), f"{stem}norm")

    def mix(self, sources: list[torch.Tensor], name: str) -> torch.Tensor:
        """Softmax over the sources: each one's normed row against the projection."""
        gain, proj = self.get(f"{name}_norm.weight"), self.get(f"{name}_proj.weight")[0]
        stacked = torch.stack(sources)  # [S, T, H]
        normed = stacked / (stacked.pow(2).mean(-1, keepdim=True) + self.eps).sqrt() * gain
        share = (normed * proj).sum(-1).softmax(0)  # [S, T]
        return (share[..., None] * stacked).sum(0)

    def kda(self, x: torch.Tensor, at: str) -> torch.Tensor:
        sizes = self.config["linear_attn_config"]
        n, d, taps = sizes["num_heads"], sizes["head_dim"], sizes["short_conv_kernel_size"]
        tokens = x.shape[0]

        def convolved(name: str) -> torch.Tensor:
            raw = F.pad(self.linear(x, f"{at}{name}_proj").T, (taps - 1, 0))[None]
            out = F.conv1d(raw, self.get(f"{at}{name}_conv1d.weight"), groups=n * d)[0].T
            return F.silu(out).reshape(tokens, n, d)

        q, k, v = convolved("q"), convolved("k"), convolved("v")
        q = q / (q.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() * d**-0.5
        k = k / (k.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt()
        forget = self.linear(self.linear(x, f"{at}f_a_proj"), f"{at}f_b_proj")
        forget = (forget + self.get(f"{at}dt_bias")).reshape(tokens, n, d)
        rate = self.get(f"{at}A_log")[:n].exp()[:, None]  # what is stored beyond is padding
        keep = (sizes["gate_lower_bound"] * (rate * forget).sigmoid()).exp()
        beta = self.linear(x, f"{at}b_proj").sigmoid()[..., None]
        out = self.delta_rule(q, k, v, keep, beta)
        out = out / (out.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()
        out = (out * self.get(f"{at}o_norm.weight")).reshape(tokens, n * d)
        return self.linear(out * self.kda_gate(x, at).sigmoid(), f"{at}o_proj")

    def delta_rule(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        keep: torch.Tensor,
        beta: torch.Tensor,
    ) -> torch.Tensor:
        """[T, n, d], token by token: decay, correct towards the value, read."""
        state, rows = torch.zeros(q.shape[1], q.shape[2], v.shape[2]), []
        for t in range(q.shape[0]):
            state = keep[t][:, :, None] * state
            recalled = (k[t][:, :, None] * state).sum(1)
            state = state + k[t][:, :, None] * (beta[t] * (v[t] - recalled))[:, None, :]
            rows.append((q[t][:, :, None] * state).sum(1))
        return torch.stack(rows)

    def kda_gate(self, x: torch.Tensor, at: str) -> torch.Tensor:
        """One full matrix."""
        return self.linear(x, f"{at}g_proj")

    def mla(self, x: torch.Tensor, at: str) -> torch.Tensor:
        """Positions nowhere: the "rope" channels are plain channels."""
        config, tokens = self.config, x.shape[0]
        n, rank = config["num_attention_heads"], config["kv_lora_rank"]
        nope, extra, value = (config[f"{name}_head_dim"] for name in ("qk_nope", "qk_rope", "v"))
        latent = self.norm(self.linear(x, f"{at}q_a_proj"), f"{at}q_a_layernorm", self.latent_eps)
        q = self.linear(latent, f"{at}q_b_proj").reshape(tokens, n, nope + extra)
        compressed = self.linear(x, f"{at}kv_a_proj_with_mqa")
        c = self.norm(compressed[:, :rank], f"{at}kv_a_layernorm", self.latent_eps)
        both = self.linear(c, f"{at}kv_b_proj").reshape(tokens, n, nope + value)
        shared = compressed[:, None, rank:].expand(tokens, n, extra)
        k, v = torch.cat((both[..., :nope], shared), -1), both[..., nope:]
        scores = torch.einsum("tnd,snd->nts", q, k) * (nope + extra) ** -0.5
        scores = scores.masked_fill(~self.visible(x, latent, at), float("-inf"))
        y = torch.einsum("nts,snd->tnd", scores.softmax(-1), v).reshape(tokens, n * value)
        return self.linear(y * self.linear(x, f"{at}g_proj").sigmoid(), f"{at}o_proj")

    def visible(self, x: torch.Tensor, latent: torch.Tensor, at: str) -> torch.Tensor:
        """bool [T, T]: which keys a query reads. Here all up to its own."""
        return torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()

    def moe(self, x: torch.Tensor, at: str) -> torch.Tensor:
        """Experts in a narrower space, a norm on their sum; the router reads the full width."""
        config = self.config
        z = self.linear(x, f"{at}routed_expert_down_proj")
        out = self.experts(x, z, at, config["num_experts_per_token"], config["moe_renormalize"])
        out = self.norm(out, f"{at}routed_expert_norm")
        out = self.linear(out, f"{at}routed_expert_up_proj")
        return out + self.mlp(x, f"{at}shared_experts.")

    def experts(
        self, x: torch.Tensor, z: torch.Tensor, at: str, chosen: int, renormalise: bool
    ) -> torch.Tensor:
        """The weighted sum over the chosen experts, which read `z`."""
        scores = self.linear(x, f"{at}gate").sigmoid()
        biased = scores + self.get(f"{at}gate.e_score_correction_bias")
        out = torch.zeros_like(z)
        for t in range(x.shape[0]):
            best = self.best(biased[t], chosen)
            weights = scores[t][best]
            if renormalise:
                weights = weights / (weights.sum() + 1e-20)
            for expert, weight in zip(best.tolist(), weights, strict=True):
                y = self.expert(z[t : t + 1], f"{at}experts.{expert}.")[0]
                out[t] += weight * self.config["routed_scaling_factor"] * y
        return out

    def best(self, scores: torch.Tensor, count: int) -> torch.Tensor:
        """Places of the `count` highest scores [n]."""
        ranked = scores.sort(descending=True)
        if count < len(scores):
            gap = float(ranked.values[count - 1] - ranked.values[count])
            self.margin = min(self.margin, gap / float(scores.abs().max()))
        return ranked.indices[:count]

    def expert(self, z: torch.Tensor, at: str) -> torch.Tensor:
        inner = self.activated(self.linear(z, f"{at}w1"), self.linear(z, f"{at}w3"))
        return self.linear(inner, f"{at}w2")

    def mlp(self, x: torch.Tensor, at: str) -> torch.Tensor:
        inner = self.activated(self.linear(x, f"{at}gate_proj"), self.linear(x, f"{at}up_proj"))
        return self.linear(inner, f"{at}down_proj")

    def activated(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """SiTU: both sides soft-capped, the sigmoid of the raw gate."""
        beta = self.config["activation_situ_beta"]
        linear_beta = self.config["activation_situ_linear_beta"]
        capped = beta * (gate / beta).tanh() * gate.sigmoid()
        return capped * linear_beta * (up / linear_beta).tanh()

    def norm(self, x: torch.Tensor, name: str, eps: float | None = None) -> torch.Tensor:
        scale = (x.pow(2).mean(-1, keepdim=True) + (self.eps if eps is None else eps)).sqrt()
        return x / scale * self.get(f"{name}.weight")

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ self.get(f"{name}.weight").T

    def get(self, name: str) -> torch.Tensor:
        """The tensor in fp32; MXFP4 where a packed one is stored."""
        if name in self.tensors:
            return self.tensors[name].float()
        packed = self.tensors[f"{name}_packed"].int()
        codes = torch.stack((packed % 16, packed // 16), -1).flatten(1)
        sizes = torch.tensor(CODES)[codes % 8] * torch.where(codes >= 8, -1.0, 1.0)
        exponents = self.tensors[f"{name}_scale"].float() - 127
        return sizes * (2.0**exponents).repeat_interleave(32, 1)
