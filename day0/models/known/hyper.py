"""Facts that neither config nor tensors state: hyper-connections and compressed attention.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins.
"""

KNOWN = (
)
