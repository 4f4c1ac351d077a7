"""Types of the list that are not read whole yet, and why. At most 15; none of a mission family."""

EXCEPTIONS = {
    "doge": "a mask that a projection of the values makes (dt_proj, A), and product-key experts",
    "dory": "norms without weights on the unit sphere, a block of layers that runs several times",
    "hrm_text": "two stacks of layers that run in cycles, a prefix that sees itself",
    "inkling2_loop_text": "as inkling2_text, and layers that run several times behind a gate",
    "inkling2_text": "relative positions in the logits, short convolutions on keys and values",
    "inkling_text": "relative positions in the logits, short convolutions on keys and values",
    "jetmoe": "experts of attention: each has queries and an output of its own",
    "longcat_flash": "two attentions and two feed-forwards a layer, experts across them",
    "muse_spark_text": "experts behind a norm and a width of their own, a gated residual",
    "zaya": "convolutions over compressed queries and keys, a learned residual scale",
}

# State-space and recurrent types, whose mechanisms are a part of their own.
ELSEWHERE = dict.fromkeys(
    """bamba falcon_h1 falcon_mamba granitemoehybrid jamba lfm2 lfm2_moe lfm3 mamba mamba2
    nemotron_h recurrent_gemma zamba zamba2""".split(),
    "mamba, gated short convolutions, RG-LRU",
)

# Read whole, and not when nobody knows their name: what tells them apart stands in the name alone.
RENAMED = {
    "modernbert-decoder": "its first layer has no norm, which without the name is a lost tensor",
}
