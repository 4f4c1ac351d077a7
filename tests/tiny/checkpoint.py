"""Building, loading and renaming tiny checkpoints."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .caches import CacheGroup, cache_contents
from .choices import unclear_positions, watched_choices
from .draw import draw_config
from .kinds import layer_kinds
from .table import ALL_TYPES, TinyType
from .weights import randomise

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel

# The plain definitions: the grouped matrix product wants rows of 16 bytes, which odd sizes break.
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}

PROMPT_ATTEMPTS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyCheckpoint:
    """A checkpoint on disk and what transformers says about it.

    `num_params` counts the elements of all unique parameters (a tied one once), those of a vision
    tower and its projector included, which `num_tower_params` counts alone. `buffers` are the
    persistent buffers that the file holds besides, as (runtime name, elements): router biases,
    hash tables, decay tables. `layer_kinds` is (mixer, feed-forward) per layer, words of `kinds`.
    """

    type_name: str
    folder: Path
    seed: int
    config: PreTrainedConfig
    num_params: int
    num_tower_params: int
    buffers: tuple[tuple[str, int], ...]
    layer_kinds: tuple[tuple[str, str], ...]

    @property
    def text_config(self) -> PreTrainedConfig:
        """The config of the decoder, which is the whole config where nothing is nested."""
        return self.config.get_text_config(decoder=True)

    @property
    def num_buffer_elements(self) -> int:
        """Elements of all persistent buffers in the file."""
        return sum(elements for _, elements in self.buffers)


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A checkpoint loaded back through from_pretrained, in fp32, with eager attention."""

    module: PreTrainedModel

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """[T] token ids -> [T, V] logits in fp32; ValueError for a class without a head."""
        import torch

        if self.module.get_output_embeddings() is None:
            raise ValueError(f"{type(self.module).__name__} has no head: ask for hidden states")
        with torch.no_grad():
            return self.module(input_ids=ids[None]).logits[0].float()

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """[T] token ids -> [T, H] hidden states after the final norm, in fp32."""
        import torch

        with torch.no_grad():
            return decoder_of(self.module)(input_ids=ids[None]).last_hidden_state[0].float()

    def num_clear_rows(self, ids: torch.Tensor) -> int:
        """How many leading positions of [T] ids come before the first unclear top-k choice.

        Those rows of logits and hidden states can be compared; see `choices`.
        """
        import torch

        num_tokens = len(ids)
        unclear = torch.zeros(num_tokens, dtype=torch.bool)

        def note(scores: torch.Tensor, k: int) -> None:
            unclear.logical_or_(unclear_positions(scores, k, num_tokens))

        with watched_choices(note):
            self.hidden(ids)
        return int(unclear.int().argmax()) if unclear.any() else num_tokens

    def clear_prompt(self, num_tokens: int, *, seed: int) -> torch.Tensor:
        """[num_tokens] random ids at which no top-k choice of the oracle is unclear.

        LookupError if chance gives none: some prompt then has to be cut at its clear rows.
        """
        vocab_size = self.module.config.get_text_config(decoder=True).vocab_size
        for attempt in range(PROMPT_ATTEMPTS):
            ids = draw_ids(vocab_size, num_tokens, seed=seed + attempt)
            if self.num_clear_rows(ids) == num_tokens:
                return ids
        raise LookupError(f"no clear prompt of {num_tokens} tokens from seed {seed} on")


def classes_of(entry: TinyType) -> tuple[type[PreTrainedConfig], type[PreTrainedModel]]:
    """The config and the model class of a type."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model_class = getattr(transformers, entry.model_class, None)
    if model_class is None:
        raise LookupError(f"transformers {transformers.__version__} has no {entry.model_class}")
    return getattr(transformers, entry.config_class), model_class


def decoder_of(module: PreTrainedModel) -> torch.nn.Module:
    """The text decoder of a model: the module whose `layers` are the decoder layers."""
    inner = getattr(module, "model", None)
    for candidate in (module, inner, getattr(inner, "language_model", None)):
        if candidate is not None and hasattr(candidate, "layers"):
            return candidate
    raise LookupError(f"{type(module).__name__} has no decoder layers where they are looked for")


def build(type_name: str, folder: Path, *, seed: int, **overrides: Any) -> TinyCheckpoint:
    """Write config.json and model.safetensors of a random tiny model of that type into folder.

    Sizes and weights follow from the seed; `overrides` replace config words after the draw, and
    whoever gives them answers for the sizes staying distinct. Weights are fp32. KeyError for an
    unknown type.
    """
    entry = ALL_TYPES[type_name]
    config_class, model_class = classes_of(entry)
    words = draw_config(entry.describe, type_name, seed) | overrides
    module = model_class._from_config(config_class(**entry.config_words(words)), **EAGER)
    module.eval()
    randomise(module, seed)
    module.save_pretrained(folder)
    return describe(type_name, folder, seed, module)


def describe(type_name: str, folder: Path, seed: int, module: PreTrainedModel) -> TinyCheckpoint:
    """What an instantiated model says about the checkpoint it was saved to."""
    decoder = decoder_of(module)
    parameters = {id(value): value.numel() for value in module.parameters()}
    text = {id(value) for value in decoder.parameters()}
    head = module.get_output_embeddings()
    if head is not None:
        text |= {id(value) for value in head.parameters()}
    saved = module.state_dict()
    return TinyCheckpoint(
        type_name=type_name,
        folder=folder,
        seed=seed,
        config=module.config,
        num_params=sum(parameters.values()),
        num_tower_params=sum(elements for key, elements in parameters.items() if key not in text),
        buffers=tuple(
            (name, value.numel()) for name, value in module.named_buffers() if name in saved
        ),
        layer_kinds=layer_kinds(decoder),
    )


def model(checkpoint: TinyCheckpoint) -> TinyModel:
    """Load a checkpoint back; AssertionError if a key of the file is missing or left over."""
    import torch

    _, model_class = classes_of(ALL_TYPES[checkpoint.type_name])
    module, report = model_class.from_pretrained(
        checkpoint.folder, dtype=torch.float32, output_loading_info=True, **EAGER
    )
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report.get(problem), f"{checkpoint.type_name}: {problem} {report[problem]}"
    return TinyModel(module=module.eval())


def random_ids(checkpoint: TinyCheckpoint, num_tokens: int, *, seed: int) -> torch.Tensor:
    """[num_tokens] token ids drawn from the whole vocabulary."""
    return draw_ids(checkpoint.text_config.vocab_size, num_tokens, seed=seed)


def draw_ids(vocab_size: int, num_tokens: int, *, seed: int) -> torch.Tensor:
    """[num_tokens] ids below vocab_size, the same for the same seed."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (num_tokens,), generator=generator)


def cache_bytes(checkpoint: TinyCheckpoint, num_tokens: int) -> tuple[dict[str, CacheGroup], ...]:
    """Per layer, what transformers' cache holds after a prompt of num_tokens random tokens.

    Keys are `caches.GROUPS`. Bytes are those of an fp32 model; integer tensors keep their width.
    """
    import torch

    ids = random_ids(checkpoint, num_tokens, seed=checkpoint.seed)
    with torch.no_grad():
        output = model(checkpoint).module(input_ids=ids[None], use_cache=True)
    cache = output.cache if "cache" in output else output.past_key_values
    return cache_contents(cache)


def rename(
    checkpoint: TinyCheckpoint, folder: Path, *, model_type: str = "unheard_of"
) -> TinyCheckpoint:
    """The same files with a model_type and architectures nobody knows, at every level."""
    shutil.copytree(checkpoint.folder, folder, dirs_exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(renamed(json.loads(path.read_text()), model_type), indent=2))
    return replace(checkpoint, folder=folder)


def renamed(value: Any, model_type: str) -> Any:
    """A config value with the invented name put in, nested configs with a suffix of their own."""
    if not isinstance(value, dict):
        return value
    invented = {
        key: renamed(entry, f"{model_type}_{key.removesuffix('_config')}")
        for key, entry in value.items()
    }
    if "model_type" in invented:
        invented["model_type"] = model_type
    if "architectures" in invented:
        invented["architectures"] = [
            "".join(word.capitalize() for word in model_type.split("_")) + "Model"
        ]
    return invented
