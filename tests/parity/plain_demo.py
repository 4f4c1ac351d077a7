"""The demo's decoder in straightforward torch: Kimi-K3's residual and latent attention, with
GLM-5.3-Flash's pooled index in the latent layers and ordinary experts."""

import torch
from torch.nn import functional as F

from tests.parity.plain_kimi_k3 import PlainKimiK3


class PlainDemo(PlainKimiK3):
    """`config`: the words of config.json; `tensors`: the file's."""

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return self.linear(self.hidden(ids), "lm_head")

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        prefix, blocks = self.get("model.embed_tokens.weight")[ids], []
        for layer, word in enumerate(self.config["layer_types"]):
            at = f"model.layers.{layer}."
            x = self.mix([*blocks, prefix], f"{at}self_attention_res")
            x = self.norm(x, f"{at}input_layernorm")
            mixer = self.kda if word == "linear_attention" else self.mla
            y = mixer(x, f"{at}self_attn.")
            if layer % self.config["attn_res_block_size"] == 0:
                blocks.append(prefix)
                prefix = y
            else:
                prefix = prefix + y
            x = self.norm(
                self.mix([*blocks, prefix], f"{at}mlp_res"), f"{at}post_attention_layernorm"
            )
            dense = self.config["mlp_layer_types"][layer] == "dense"
            prefix = prefix + (self.mlp if dense else self.moe)(x, f"{at}mlp.")
        return self.norm(self.mix([*blocks, prefix], "model.output_attn_res"), "model.norm")

    def kda_gate(self, x: torch.Tensor, at: str) -> torch.Tensor:
        """Low rank."""
        return self.linear(self.linear(x, f"{at}g_a_proj"), f"{at}g_b_proj")

    def visible(self, x: torch.Tensor, latent: torch.Tensor, at: str) -> torch.Tensor:
        """The tokens of the best closed pools, and those of the open one."""
        config, tokens, at = self.config, x.shape[0], f"{at}indexer."
        heads, dim, size = config["index_n_heads"], config["index_head_dim"], config["index_kpool"]
        queries = self.linear(latent, f"{at}wq_b").reshape(tokens, heads, dim)
        raw = self.linear(x, f"{at}wk")
        keys = F.layer_norm(
            raw, (dim,), self.get(f"{at}k_norm.weight"), self.get(f"{at}k_norm.bias"), 1e-6
        )
        gates = x @ self.get(f"{at}index_kpool_compress_gate").T
        pools = tokens // size
        share = gates[: pools * size].reshape(pools, size, dim)
        share = (share + self.get(f"{at}index_kpool_compress_ape")).softmax(1)
        pooled = (share * keys[: pools * size].reshape(pools, size, dim)).sum(1)  # [pools, d]
        products = torch.einsum("thd,pd->thp", queries, pooled) * dim**-0.5
        weights = self.linear(x, f"{at}weights_proj") * heads**-0.5
        scores = (products.relu() * weights[..., None]).sum(1)  # [T, pools]
        seen = torch.zeros(tokens, tokens, dtype=torch.bool)
        for t in range(tokens):
            closed = (t + 1) // size
            for pool in self.best(scores[t, :closed], config["index_topk"] // size).tolist():
                seen[t, pool * size : (pool + 1) * size] = True
            seen[t, closed * size : t + 1] = True
        return seen

    def moe(self, x: torch.Tensor, at: str) -> torch.Tensor:
        config = self.config
        out = self.experts(x, x, at, config["num_experts_per_tok"], config["norm_topk_prob"])
        return out + self.mlp(x, f"{at}shared_experts.")

    def expert(self, z: torch.Tensor, at: str) -> torch.Tensor:
        return self.mlp(z, at)

    def activated(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up
