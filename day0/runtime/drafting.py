"""What drafts for a model about to be loaded: its MTP layer, its own text, or a second model.

Everything that can be wrong with a source is said before any weight is read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from day0.errors import Day0Error
from day0.ir.cache import CacheSpec
from day0.ir.weight import Leaf, picks
from day0.models.drafts import graph_name
from day0.models.groups import unclaimed
from day0.passes.lower import SPECULATIVE, Lowered
from day0.runtime.loading import loaded
from day0.runtime.memory import Needs, needs
from day0.runtime.opening import DRAFTS_LEFT_OUT, Opened
from day0.runtime.session import Session, lowered_for
from day0.runtime.speculation import Drafts, Speculation
from day0.runtime.speculation_model import Follower
from day0.runtime.speculation_ngram import Lookup

MTP, NGRAM = "mtp", "ngram"
DRAFT_TOKENS = 3
# Rows that a verify step gives a sequence stay below a page.
MOST = 15
MTP_GRAPH = graph_name(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """`source` "mtp", "ngram" or a model's name; `tokens` drafted a step; `lowered` graphs of what
    computes the drafts, by phase (none for "ngram"), and `opened`, the second model."""

    source: str
    tokens: int
    lowered: Mapping[str, Lowered]
    opened: Opened | None = None

    @property
    def caches(self) -> tuple[CacheSpec, ...]:
        """What the source keeps, under the model's own page tables."""
        return tuple(self.lowered["prefill"].caches.values()) if self.lowered else ()

    def attach(self, session: Session, opened: Opened) -> None:
        """Load what drafts, and let the session's engines ask it."""
        make = self._source(session, opened)
        session.speculation = lambda: Speculation(make(), self.tokens, self.source)

    def needs(self, opened: Opened) -> tuple[Needs, ...]:
        """What the source takes beside the model: its caches, and weights that are not there."""
        if not self.lowered:
            return ()
        whose, known = self.opened or opened, opened.lowered["prefill"] if not self.opened else None
        return (needs(self.lowered["prefill"], whose.recipe, whose.device, known=known),)

    def _source(self, session: Session, opened: Opened) -> Callable[[], Drafts]:
        if self.source == NGRAM:
            return Lookup
        vocab = opened.model.spec.vocab_size
        whose = self.opened or opened
        known = session.weights if self.opened is None else {}
        weights, _ = loaded(
            self.lowered, whose.recipe, headers=whose.headers, folder=whose.folder,
            dummy_seed=whose.dummy_seed, device=session.device, known=known,
        )  # fmt: skip
        follower = Session(
            whose.model, whose.recipe, weights={**known, **weights}, lowered=self.lowered,
            sizes=session.sizes, device=session.device, limits=session.limits,
        )  # fmt: skip
        session.follower = follower
        tap = opened.lowered["prefill"].graph.outputs[1] if self.opened is None else ""
        return lambda: Follower(follower, vocab=vocab, tap=tap)


def open_with_drafts(
    name: str,
    source: str,
    tokens: int,
    *,
    main: Callable[..., Opened],
    other: Callable[..., Opened],
) -> Opened:
    """The model `name`, opened by `main`, with drafts of `source`, `tokens` of them a step; `other`
    opens a second model. Both take a name, and `settle` as `open_model` does. Day0Error for a
    source that cannot draft for this model."""
    if not 1 <= tokens <= MOST:
        raise Day0Error(
            f"--draft-tokens is {tokens}; it must be 1 to {MOST}",
            hint=f"day0 run {name} --speculate {source} --draft-tokens 3",
        )
    if source not in (MTP, NGRAM):
        opened, second = main(name), other(source)
        _must_share_tokens(opened, second)
        notes = tuple(f"{source}: {note}" for note in second.notes)
        opened = replace(opened, notes=opened.notes + notes)
        return _drafting(opened, source, tokens, _lowered(second, taps=False), second)

    def settle(opened: Opened) -> Opened:
        lowered = _lowered_mtp(opened) if source == MTP else {}
        return _drafting(opened, source, tokens, lowered)

    return main(name, settle=settle)


def _drafting(
    opened: Opened,
    source: str,
    tokens: int,
    lowered: Mapping[str, Lowered],
    second: Opened | None = None,
) -> Opened:
    notes = opened.notes
    if source == MTP:
        notes = tuple(note for note in notes if note != DRAFTS_LEFT_OUT)
        if more := len(opened.model.spec.drafts) - 1:
            notes += (f"the first MTP layer makes all drafts; {more} further ones are not run",)
    return replace(
        opened,
        lowered=_lowered(opened, taps=source == MTP),
        drafting=Drafting(source=source, tokens=tokens, lowered=lowered, opened=second),
        notes=notes,
    )


def _lowered(opened: Opened, *, taps: bool, graph: str = "main") -> dict[str, Lowered]:
    return lowered_for(
        opened.model, opened.recipe, opened.backend, device=opened.device, without=opened.without,
        graph=graph, phases=SPECULATIVE, taps=taps,
    )  # fmt: skip


def _lowered_mtp(opened: Opened) -> dict[str, Lowered]:
    """Day0Error where the checkpoint holds no MTP layer that can be built whole."""
    instead = f"day0 run {opened.name} --speculate ngram needs no weights"
    if MTP_GRAPH not in opened.model.graphs:
        raise Day0Error(
            f"{opened.name} has no MTP layer to draft with: {_why_none(opened)}", hint=instead
        )
    lowered = _lowered(opened, taps=True, graph=MTP_GRAPH)
    if opened.headers is not None and opened.dummy_seed is None:
        names = {name for low in lowered.values() for op in low.graph.ops for _, name in op.weights}
        weights = lowered["prefill"].weights
        wanted = {tensor for name in names for tensor in _stored(weights[name].source)}
        if missing := sorted(wanted - set(opened.headers.tensors)):
            raise Day0Error(
                f"the MTP layer of {opened.name} is not whole: {len(missing)} of its "
                f"{len(wanted)} tensors are not in the checkpoint, {missing[0]} first",
                hint=instead,
            )
        if strays := sorted(_strays(opened, wanted)):
            raise Day0Error(
                f"{strays[0]} belongs to a tensor of the MTP layer and is of a form that nothing "
                "reads: without it the draft would be computed from raw codes",
                hint=instead,
            )
    return lowered


def _why_none(opened: Opened) -> str:
    declared, shipped, spec = opened.mtp.declared, opened.mtp.shipped, opened.model.spec
    if shipped and len(spec.layers) < spec.shape.num_layers:
        return f"--layers leaves out the {shipped} that it has behind its last layer"
    if shipped and any(group.role == "mtp" for group in opened.model.groups):
        group = next(group for group in opened.model.groups if group.role == "mtp")
        return (
            f"the {len(group.tensors)} tensors below {group.name} are of a form that no "
            "mechanism knows"
        )
    if shipped:
        return f"it has {shipped}, of parts that read the trunk's own layers"
    return f"config.json promises {declared or 'none'}, the checkpoint holds none"


def _stored(source: object) -> Iterator[str]:
    """Names of the stored tensors that a weight's expression reads."""
    for leaf, count, _ in picks(source):  # pyright: ignore[reportArgumentType]
        yield from _of_leaf(leaf, count)


def _of_leaf(leaf: Leaf, count: int) -> Iterator[str]:
    for template in [name for _, name in leaf.parts] or [leaf.name]:
        before, expert, after = template.partition("{e}")
        yield from (f"{before}{n}{after}" for n in range(count)) if expert else (template,)


def _strays(opened: Opened, wanted: set[str]) -> Iterator[str]:
    """Tensors that nobody takes, called like one of the layer's with something behind it: scales
    of a form we do not know (field case: dropping them leaves codes in use)."""
    assert opened.headers is not None
    stems = {name.removesuffix(".weight") for name in wanted}
    for name in unclaimed(opened.model, opened.headers.tensors):
        if any(name.startswith((f"{stem}.", f"{stem}_")) for stem in stems):
            yield name


def _must_share_tokens(opened: Opened, second: Opened) -> None:
    """Day0Error where ids mean different tokens to the two models."""
    ours, theirs = opened.model.spec.vocab_size, second.model.spec.vocab_size
    if opened.text is not None and second.text is not None:
        if opened.text.vocabulary != second.text.vocabulary:
            raise Day0Error(
                f"{second.name} has another tokenizer than {opened.name}; a draft must share it",
                hint="take a smaller model of the same family, or --speculate ngram",
            )
    elif ours != theirs:
        raise Day0Error(
            f"{second.name} knows {theirs:,} tokens and {opened.name} {ours:,}, and no tokenizer "
            "says that they mean the same; a draft must share them",
            hint="take a smaller model of the same family, or --speculate ngram",
        )
