"""All mechanisms, in the order in which they are asked."""

from day0.mechanisms.altup import ALTUP
from day0.mechanisms.attn_residual import ATTN_RESIDUAL
from day0.mechanisms.differential import DIFFERENTIAL
from day0.mechanisms.gdn import GDN
from day0.mechanisms.glu import GLU
from day0.mechanisms.gqa import GQA
from day0.mechanisms.hyper_connection import HYPER_CONNECTION
from day0.mechanisms.hyper_gate import HYPER_GATE
from day0.mechanisms.indexer import Indexer
from day0.mechanisms.kda import KDA
from day0.mechanisms.lightning import LIGHTNING
from day0.mechanisms.mla import MLA
from day0.mechanisms.mlp import MLP
from day0.mechanisms.moe import MOE
from day0.mechanisms.mtp import Mtp, Site
from day0.mechanisms.per_layer_input import PER_LAYER_INPUT
from day0.mechanisms.positions import Positions
from day0.mechanisms.residual import ADD, Residual
from day0.mechanisms.shared_kv import SHARED_KV
from day0.mechanisms.sparse_gqa import SPARSE_GQA
from day0.mechanisms.spec import Mechanism
from day0.mechanisms.unknown import UNKNOWN

MIXERS: tuple[Mechanism, ...] = (KDA, GDN, LIGHTNING, MLA, SHARED_KV, SPARSE_GQA, DIFFERENTIAL, GQA)
FFNS: tuple[Mechanism, ...] = (MOE, MLP, GLU)
RESIDUALS: tuple[Residual, ...] = (ATTN_RESIDUAL, ALTUP, HYPER_CONNECTION, HYPER_GATE, ADD)

MECHANISMS: dict[str, Mechanism] = {
    mechanism.stem: mechanism for mechanism in (*MIXERS, *FFNS, PER_LAYER_INPUT, UNKNOWN)
}
RESIDUAL: dict[str, Residual] = {residual.stem: residual for residual in RESIDUALS}
_added: dict[str, list[Mechanism]] = {"mixer": [], "ffn": []}


def mixers() -> tuple[Mechanism, ...]:
    """Mechanisms asked for a layer's mixer; those of plugins first."""
    return (*_added["mixer"], *MIXERS)


def ffns() -> tuple[Mechanism, ...]:
    """Mechanisms asked for a layer's feed-forward; those of plugins first."""
    return (*_added["ffn"], *FFNS)


def add_mechanism(slot: str, mechanism: Mechanism) -> None:
    """A plugin's mechanism for `slot` "mixer" or "ffn", from now on in this process; ValueError
    when its stem is taken."""
    if mechanism.stem in MECHANISMS:
        raise ValueError(f"the mechanism {mechanism.stem!r} exists already")
    _added[slot].insert(0, mechanism)
    MECHANISMS[mechanism.stem] = mechanism


# Neither mixer, feed-forward nor residual: indexers stand inside mixers, drafts beside the trunk.
PARTS: tuple[type, ...] = (Indexer, Mtp, Positions, Site)
