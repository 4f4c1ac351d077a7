"""All mechanisms, in the order in which they are asked."""

from day0.mechanisms.attn_residual import ATTN_RESIDUAL
from day0.mechanisms.gdn import GDN
from day0.mechanisms.glu import GLU
from day0.mechanisms.gqa import GQA
from day0.mechanisms.hyper_connection import HYPER_CONNECTION
from day0.mechanisms.hyper_gate import HYPER_GATE
from day0.mechanisms.indexer import Indexer
from day0.mechanisms.kda import KDA
from day0.mechanisms.lightning import LIGHTNING
from day0.mechanisms.mla import MLA
from day0.mechanisms.moe import MOE
from day0.mechanisms.mtp import Mtp, Site
from day0.mechanisms.residual import ADD, Residual
from day0.mechanisms.shared_kv import SHARED_KV
from day0.mechanisms.sparse_gqa import SPARSE_GQA
from day0.mechanisms.spec import Mechanism

MIXERS: tuple[Mechanism, ...] = (KDA, GDN, LIGHTNING, MLA, SHARED_KV, SPARSE_GQA, GQA)
FFNS: tuple[Mechanism, ...] = (MOE, GLU)
RESIDUALS: tuple[Residual, ...] = (ATTN_RESIDUAL, HYPER_CONNECTION, HYPER_GATE, ADD)

MECHANISMS: dict[str, Mechanism] = {mechanism.stem: mechanism for mechanism in (*MIXERS, *FFNS)}
RESIDUAL: dict[str, Residual] = {residual.stem: residual for residual in RESIDUALS}
# Neither mixer, feed-forward nor residual: indexers stand inside mixers, drafts beside the trunk.
PARTS: tuple[type, ...] = (Indexer, Mtp, Site)
