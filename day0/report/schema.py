"""Schema numbers and top-level keys of the JSON that other tools rely on."""

ANALYSIS_SCHEMA = "day0.analysis/1"
ANALYSIS_KEYS = (
    "schema", "model", "params", "bytes", "layers", "graph", "drafts", "speculation", "inventory",
    "new_fraction", "caches",
    "kv_bytes_per_token", "index_bytes_per_token", "state_bytes_per_sequence",
    "window_bytes_per_sequence", "state_checkpoint", "proof", "semantics", "facts", "groups",
    "config", "quant", "recipe", "nearest", "precision", "parallel", "passes", "schedule", "memory",
    "cost", "checklist", "findings", "read",
)  # fmt: skip
