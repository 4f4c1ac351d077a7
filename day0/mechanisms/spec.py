"""What a model is made of, as data: layers, sublayers, and the record of a mechanism."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from day0.mechanisms.builder import Builder
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.names import Scope


@dataclass(slots=True, kw_only=True)
class Flow:
    """What runs through the layers: the residual value `x`, graph inputs by name ("ids"), and
    `kept`: values that later layers read (top-k lists, residual blocks), by name."""

    x: str
    inputs: dict[str, str]
    kept: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes every mechanism needs: hidden width, layer count, the config's norm eps, and what
    norms are: `norm_kind` "rms" or "layer", `norm_bare` without a weight."""

    hidden_size: int
    num_layers: int
    norm_eps: float
    zero_centered: bool
    norm_kind: str = "rms"
    norm_bare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer while it is read.

    `index` its number; `word` what the config calls its mixer ("linear", "full", "sliding",
    "indexed", ... or ""); `ffn_word` "dense", "sparse", "hash" or ""; `at` the layer's names;
    `owners` for each mechanism stem the specs read in earlier layers, by layer number.
    """

    index: int
    word: str
    ffn_word: str
    cfg: ConfigReader
    at: Scope
    shape: Shape
    owners: dict[str, dict[int, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """How one kind of part is read and flows.

    `sees(layer)`: its tensors stand in this layer. `says(layer)`: the config's words mean it here
    (asked where headers do not decide). `read(layer) -> spec`. `flow(spec, b, x, at, flow) -> y`.
    `modules`: names of the submodule its tensors stand in.
    """

    stem: str
    spec: type
    sees: Callable[[Layer], bool]
    says: Callable[[Layer], bool]
    read: Callable[[Layer], Any]
    flow: Callable[[Any, Builder, str, Scope, Flow], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A mechanism's spec, the facts it was read from, and its factor in the sum. Of several
    branches of a sublayer: `slot`, the id prefix, and `norm` and `norm_out`, the branch's own
    before and after it."""

    stem: str
    spec: Any
    because: tuple[str, ...] = ()
    multiplier: float = 1.0
    slot: str = ""
    norm: "Part | None" = None
    norm_out: "Part | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sublayer:
    """Branches read one input and add up.

    `name` is the id prefix ("mixer", "ffn"). `norm_in`, `norm_out`: norm specs or None.
    `residual`: how the sum joins the stream.
    """

    name: str
    branches: tuple[Part, ...]
    residual: Part
    norm_in: Part | None = None
    norm_out: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """The sublayers of one decoder layer, in order."""

    sublayers: tuple[Sublayer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A decoder.

    `residual` says how the stream begins and ends; `norm` is the final norm (None: the residual's
    end holds it). `softcap` and `logit_scale` act on logits, `embedding_scale` on embeddings.
    `head_size`: rows of the head where they are fewer than the vocabulary, `head_transform` the
    function of a feed-forward before it. `drafts`: MTP modules. `positions`: what is done to
    embeddings first, or None.
    """

    name: str
    architectures: tuple[str, ...]
    model_type: str
    dtype: str
    context_length: int | None
    vocab_size: int
    shape: Shape
    layers: tuple[LayerSpec, ...]
    residual: Part
    norm: Part | None
    tied: bool
    head_size: int = 0
    head_bias: bool = False
    head_transform: str | None = None
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    softcap: float | None = None
    drafts: tuple[Part, ...] = ()
    positions: Part | None = None
