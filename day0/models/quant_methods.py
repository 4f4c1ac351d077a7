"""One reader for each quantisation method: a block's keys -> rules, lists, KV scheme."""

from typing import Any

from day0.ir import format as formats
from day0.models import quant_groups
from day0.models.module_patterns import EXPERTS, parse
from day0.models.quant_block import Block, Draft, KvScheme, Rule

EXCLUSIONS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
# Keys about how the quantising was done, or about a kernel choice; none changes what is stored.
PROVENANCE = ("producer", "quant_method", "quantization_status", "global_compression_ratio",
              "version", "meta", "dataset", "tokenizer", "model_seqlen", "model_name_or_path",
              "model_file_base_name", "batch_size", "backend", "use_cuda_fp16", "use_exllama",
              "exllama_config", "max_input_length", "cache_block_outputs", "damp_percent",
              "damp_auto_increment", "static_groups", "true_sequential", "block_name_to_quantize",
              "module_name_preceding_first_block", "pad_token_id", "do_fuse", "fuse_max_seq_len",
              "modules_to_fuse", "dequantize", "desc_act", "act_group_aware", "mse",
              "sym")  # fmt: skip
# ModelOpt's quant_algo -> storage format (NVIDIA Model-Optimizer, modelopt/torch/export).
ALGORITHMS = {
    "FP8": "fp8_tensor", "FP8_PER_CHANNEL_PER_TOKEN": "fp8_channel", "FP8_PB_WO": "fp8_b128",
    "FP8_PB_REAL": "fp8_b128", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4", "MXFP8": "mxfp8", "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4",
    "INT8_SQ": "int8_channel",
}  # fmt: skip
KV_FORMATS = {"FP8": "fp8_e4m3", "NVFP4": "nvfp4", "INT8": "int8"}


def read(block: Block, *, expert_dtype: Any = None, default: str = "") -> Draft:
    """Read a block by its method, which older files leave to the reader to tell."""
    method = (block.word("quant_method") or default or _method(block)).lower()
    if method.startswith("modelopt"):
        draft = _modelopt(block, Draft(method=method))
    elif method in ("fp8", "fbgemm_fp8", "mxfp8"):
        draft = _fp8(block, Draft(method=method), expert_dtype)
    elif method == "compressed-tensors":
        draft = _compressed_tensors(block, Draft(method=method))
    elif method == "mxfp4":
        draft = _exclusions(block, Draft(method=method))
        draft.rules.append(Rule(format="mxfp4", linear=True))
    elif method in ("awq", "gptq"):
        draft = _integers(block, Draft(method=method))
    elif method == "bitsandbytes":
        draft = _bitsandbytes(block, Draft(method=method))
    else:
        draft = _exclusions(block, Draft(method=method))
        draft.unread.append(f"quant_method={method or 'missing'}")
    block.skip(*PROVENANCE)
    return draft


def _method(block: Block) -> str:
    if "quant_algo" in block:
        return "modelopt"
    if "config_groups" in block:
        return "compressed-tensors"
    return "bitsandbytes" if "load_in_4bit" in block or "load_in_8bit" in block else ""


def _exclusions(block: Block, draft: Draft) -> Draft:
    draft.exclude = block.patterns(*EXCLUSIONS)
    return draft


def _fp8(block: Block, draft: Draft, expert_dtype: Any) -> Draft:
    """DeepSeek's block scales, and per-tensor or per-channel forms without weight_block_size."""
    draft.activations = block.word("activation_scheme")
    block.skip("weight_per_tensor", "act_per_tensor", "activation_scale_ub")
    scales = block.word("scale_fmt", default="float")
    if scales not in ("float", "ue8m0"):
        draft.unread.append(f"scale_fmt={scales}")
    codes = block.word("fmt", default="e4m3")
    if codes not in ("e4m3", "float8_e4m3fn"):
        draft.unread.append(f"fmt={codes}")
    size = block.sizes("weight_block_size")
    if draft.method == "mxfp8":
        name = "mxfp8"
    elif size is None:
        name = "fp8_channel" if draft.method == "fbgemm_fp8" else "fp8_tensor"
    else:
        name = formats.block_name(*size, ue8m0=scales == "ue8m0")
    experts = block.get("expert_dtype") or expert_dtype
    if experts == "fp4":
        draft.rules.append(Rule(format="mxfp4", targets=EXPERTS))
    elif experts not in (None, "fp8"):
        draft.unread.append(f"expert_dtype={experts}")
    if "quantized_layers" in block:
        # A ModelOpt pass over an FP8 base (nvidia/DeepSeek-V4-*-NVFP4): its list excludes from the
        # second pass only, what it names stays FP8.
        _layers(block, draft)
        draft.listed = block.words(*EXCLUSIONS)
        block.skip("moe_quant_algo", "quant_algo", "group_size")
        draft.kv = _kv(block, draft)
        draft.notes.append("a ModelOpt pass over an FP8 checkpoint: the rest stays FP8")
    else:
        _exclusions(block, draft)
    draft.rules.append(Rule(format=name, linear=True))
    return draft


def _modelopt(block: Block, draft: Draft) -> Draft:
    """config.json's form and the sidecar's, which differ in key names only."""
    _exclusions(block, draft)
    draft.kv = _kv(block, draft)
    algorithm = block.word("quant_algo")
    block.skip("group_size", "moe_quant_algo", "has_zero_point", "pre_quant_scale")
    groups = quant_groups.read(block, draft)
    if "quantized_layers" in block:
        _layers(block, draft)
    elif algorithm:
        name = _algorithm(algorithm, block.path("quant_algo"), draft)
        others = {rule.format for rule in groups} - {name}
        if others and name:
            draft.notes.append(f"quant_algo says {name}, config_groups {sorted(map(str, others))}")
        draft.rules.append(Rule(format=name, linear=True))
    else:
        draft.rules += groups
    return draft


def _layers(block: Block, draft: Draft) -> None:
    """ModelOpt's quantized_layers; config_groups repeat them by format and are only marked read."""
    layers = block.block("quantized_layers") or Block({})
    for name in layers:
        layer = layers.block(name) or Block({})
        layer.skip("group_size", "has_zero_point", "pre_quant_scale")
        algorithm = layer.word("quant_algo")
        draft.layers[name] = _algorithm(algorithm, layers.path(name), draft)
    quant_groups.read(block, draft)


def _algorithm(algorithm: str, path: str, draft: Draft) -> str | None:
    if algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    unknown = f"{path}={algorithm}"
    if algorithm and unknown not in draft.unread:
        draft.unread.append(unknown)
    return None


def _compressed_tensors(block: Block, draft: Draft) -> Draft:
    _exclusions(block, draft)
    draft.kv = _kv(block, draft)
    draft.rules += quant_groups.read(block, draft)
    sparsity = block.block("sparsity_config")
    if sparsity is not None and sparsity.get("format", "dense") == "dense":
        sparsity.skip(*sparsity)
    quant_groups.transforms(block, draft)
    return draft


def _integers(block: Block, draft: Draft) -> Draft:
    """AWQ and GPTQ: bits and group size for every linear layer but the lists'."""
    draft.exclude = parse((*block.words(*EXCLUSIONS), *_negative(block)))
    bits = block.number("bits", "w_bit")
    group = block.number("group_size", "q_group_size")
    block.skip("zero_point", "pack_dtype", "quant_type")
    layout = block.word("checkpoint_format", "format", "version", default="gemm").lower()
    if layout not in ("gemm", "gptq", "gptq_v2", "1", "2"):
        draft.unread.append(f"layout={layout}")
    if layout == "gptq_v2":
        draft.notes.append("gptq_v2: zero points are stored as they are, not less one")
    name = None
    if bits is not None and group is not None:
        name = f"{draft.method}{bits}_{'channel' if group < 0 else f'g{group}'}"
        if not formats.is_known(name):
            draft.unread.append(f"bits={bits}, group_size={group}")
            name = None
    # Neither method touches the output head unless it says so.
    ignore = parse(()) if block.get("lm_head", False) else parse(("lm_head",))
    draft.rules.append(Rule(format=name, linear=True, ignore=ignore))
    block.skip("modules_in_block_to_quantize")
    return draft


def _negative(block: Block) -> tuple[str, ...]:
    """GPTQModel's "dynamic": "-:regex" excludes; other overrides are reported as unread."""
    dynamic = block.block("dynamic")
    if dynamic is None:
        return ()
    excluded = tuple(key for key in dynamic if key.startswith("-:"))
    dynamic.skip(*excluded)
    return tuple(f"re:{key.removeprefix('-:')}" for key in excluded)


def _bitsandbytes(block: Block, draft: Draft) -> Draft:
    draft.exclude = block.patterns("llm_int8_skip_modules", *EXCLUSIONS)
    four = block.first("load_in_4bit", "_load_in_4bit")
    eight = block.first("load_in_8bit", "_load_in_8bit")
    nested = bool(block.get("bnb_4bit_use_double_quant", False))
    block.skip("bnb_4bit_compute_dtype", "bnb_4bit_quant_type", "llm_int8_threshold",
               "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight")  # fmt: skip
    storage = block.word("bnb_4bit_quant_storage", default="uint8")
    if storage != "uint8":
        draft.unread.append(f"bnb_4bit_quant_storage={storage}")
    name = ("bnb4_nested" if nested else "bnb4") if four else "bnb8" if eight else None
    # Linear layers only, and never the output head (transformers, integrations/bitsandbytes.py).
    draft.rules.append(Rule(format=name, linear=True, ignore=parse(("lm_head",))))
    return draft


def _kv(block: Block, draft: Draft) -> KvScheme | None:
    """kv_cache_scheme as an object or a word, kv_cache_quant_algo as a word."""
    word = block.word("kv_cache_quant_algo")
    scheme = block.get("kv_cache_scheme")
    if isinstance(scheme, str):
        word = scheme
    elif scheme is not None:
        return quant_groups.kv_scheme(block.block("kv_cache_scheme"), draft)
    if not word:
        return None
    if word not in KV_FORMATS:
        draft.unread.append(f"{block.path('kv_cache_quant_algo')}={word}")
        return None
    return KvScheme(format=KV_FORMATS[word])
