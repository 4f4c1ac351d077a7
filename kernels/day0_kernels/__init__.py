"""Kernels of day0 and their definitions: torch and triton only, nothing of day0 itself.

Each name in `OPS` is a folder of this package with the same files; see any README.md there.
Importing the package, its references and its cases needs neither triton nor a GPU.
"""

OPS = (
    "kda",
    "gdn",
    "lightning",
    "short_conv",
    "gated_rmsnorm",
    "rmsnorm",
    "moe_route",
    "experts",
    "quant",
    "rope",
    "fp8_gemm",
    "basic",
    "cache_write",
    "attn_residual",
    "mla",
    "hyper_connection",
    "sparse_mla",
    "gqa",
    "sparse_gqa",
    "indexer",
)

# Folders with definitions alone: nothing to compare them with here, so no cases either.
DEFINITIONS = (
    "altup",
    "compress",
    "ngram_embedding",
    "sampling",
    "shared_kv",
)
