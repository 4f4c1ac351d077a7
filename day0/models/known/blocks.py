"""Facts that neither config nor tensors state: block-indexed attention and n-gram tables.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins.
"""

KNOWN = (
)
