"""Where the definition of each operator family stands, for whoever runs a Graph on definitions."""

# family -> "module:function"; every one serves prefill and decode. `cache_write` is nothing but
# addressing and `unknown` is not known: neither has one.
REFERENCES = {
    "activation": "day0_kernels.basic.reference:activation",
    "add": "day0_kernels.basic.reference:add",
    "add_rmsnorm": "day0_kernels.rmsnorm.reference:add_rmsnorm",
    "attn_residual": "day0_kernels.attn_residual.reference:attn_residual",
    "compress": "day0_kernels.compress.reference:compress",
    "concat": "day0_kernels.basic.reference:concat",
    "embedding": "day0_kernels.basic.reference:embedding",
    "experts": "day0_kernels.experts.reference:experts",
    "gate": "day0_kernels.basic.reference:gate",
    "gated_rmsnorm": "day0_kernels.gated_rmsnorm.reference:gated_rmsnorm",
    "gdn": "day0_kernels.gdn.reference:gdn",
    "glu": "day0_kernels.basic.reference:glu",
    "gqa": "day0_kernels.gqa.reference:gqa",
    "hyper_connection": "day0_kernels.hyper_connection.reference:hyper_connection",
    "hyper_gate": "day0_kernels.hyper_connection.reference:hyper_gate",
    "hyper_write": "day0_kernels.hyper_connection.reference:hyper_write",
    "indexer": "day0_kernels.indexer.reference:indexer",
    "kda": "day0_kernels.kda.reference:kda_prefill",
    "kda_step": "day0_kernels.kda.reference:kda_decode_fused",
    "layernorm": "day0_kernels.basic.reference:layernorm",
    "lightning": "day0_kernels.lightning.reference:lightning",
    "linear": "day0_kernels.basic.reference:linear",
    "merged_linear": "day0_kernels.basic.reference:linear",
    "merged_short_conv": "day0_kernels.short_conv.reference:short_conv",
    "mla": "day0_kernels.mla.reference:mla",
    "moe_route": "day0_kernels.moe_route.reference:moe_route_general",
    "ngram_embedding": "day0_kernels.ngram_embedding.reference:ngram_embedding",
    "ngram_gate": "day0_kernels.ngram_embedding.reference:ngram_gate",
    "position_scale": "day0_kernels.basic.reference:position_scale",
    "rmsnorm": "day0_kernels.basic.reference:rmsnorm",
    "rope": "day0_kernels.rope.reference:rope",
    "shared_kv": "day0_kernels.shared_kv.reference:shared_kv",
    "short_conv": "day0_kernels.short_conv.reference:short_conv",
    "softcap": "day0_kernels.basic.reference:softcap",
    "sparse_gqa": "day0_kernels.sparse_gqa.reference:sparse_gqa",
    "sparse_mla": "day0_kernels.sparse_mla.reference:sparse_mla",
    "streams": "day0_kernels.basic.reference:streams",
    "take_rows": "day0_kernels.basic.reference:take_rows",
}

# The same results by another way, for tests and for passes that choose it.
OTHER_FORMS = {
    "mla": "day0_kernels.mla.reference:mla_absorbed",
    "sparse_mla": "day0_kernels.sparse_mla.reference:sparse_mla_absorbed",
    "gdn": "day0_kernels.gdn.reference:gdn_chunked",
    "lightning": "day0_kernels.lightning.reference:lightning_chunked",
}
