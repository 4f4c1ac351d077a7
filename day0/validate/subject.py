"""What checks look at: a model that can be loaded in several recipes and lowerings, the ids they
run on, and what one undisturbed prompt gives."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from day0.ir.graph import Model
from day0.ir.recipe import RECIPES, Recipe
from day0.passes.lower import SPECULATIVE
from day0.runtime.opening import Opened
from day0.runtime.session import Session, Sizes, lowered_for
from day0.validate.direct import Direct, Look, Rows
from day0.validate.sequences import Known, borders, drawn

EXACT = "fp32"  # checks of state run in it: what differs there is no rounding


@dataclass(slots=True)
class Subject:
    """`sequences` by number, the long one first. `seed` of all that is drawn."""

    opened: Opened
    seed: int = 0
    longest: int = 4096
    sequences: Mapping[int, Known] = field(init=False)
    borders: Mapping[int, str] = field(init=False)
    _sessions: dict[tuple[str, str, tuple[str, ...]], Session] = field(default_factory=dict)
    _expected: dict[int, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model, device = self.opened.model, self.opened.device
        found = drawn(model, device=device, seed=self.seed, longest=self.longest)
        self.sequences = dict(enumerate(found))
        self.borders = borders(model, device=device)

    @property
    def model(self) -> Model:
        return self.opened.model

    @property
    def on_gpu(self) -> bool:
        return self.opened.device != "cpu"

    def session(
        self,
        recipe: Recipe | None = None,
        *,
        without: tuple[str, ...] | None = None,
        backend: str | None = None,
    ) -> Session:
        """The model in a recipe (fp32), without these passes (those that the user left out).
        The first is kept; of the others, whose weights are loaded again, only the latest."""
        recipe = recipe or RECIPES[EXACT]
        without = self.opened.without if without is None else without
        backend = backend or self.opened.backend
        key = recipe.name, backend, tuple(sorted(without))
        if key not in self._sessions:
            for old in list(self._sessions)[1:]:
                self._expected.pop(id(self._sessions.pop(old)), None)
            if self.on_gpu:
                gc.collect()  # programs and graphs hold each other
                torch.cuda.empty_cache()
            # lowered anew: what `opened` holds is of another recipe, passes or, in tests, Graph
            lowered = lowered_for(
                self.model, recipe, backend, device=self.opened.device, without=without
            )
            opened = replace(
                self.opened, recipe=recipe, without=without, backend=backend, lowered=lowered
            )
            self._sessions[key], _ = opened.session(self._sizes())
        return self._sessions[key]

    def verifying(self, drafts: int) -> Session:
        """The session's model and weights, over caches of their own for steps that check so many
        drafts a sequence."""
        session, opened = self.session(), self.opened
        lowered = lowered_for(
            self.model, session.recipe, opened.backend, device=opened.device,
            without=opened.without, phases=SPECULATIVE,
        )  # fmt: skip
        return Session(
            self.model, session.recipe, weights=session.weights, lowered=lowered,
            sizes=replace(self._sizes(), drafts=drafts), device=session.device,
        )  # fmt: skip

    def expected(self, session: Session) -> Rows:
        """Logits of every row of every sequence, each alone and in one piece, in clean caches."""
        if id(session) not in self._expected:
            self._expected[id(session)] = self.undisturbed(session)
        return self._expected[id(session)]

    def undisturbed(self, session: Session, trace: Look | None = None) -> Rows:
        """The same, run anew, before the eyes of `trace`."""
        clean(session)
        direct = Direct(session, self.sequences, look=trace, scattered=False)
        for number in self.sequences:
            direct.prefill(number)
        clean(session)
        return direct.rows

    def close(self) -> None:
        """Let go of every session and what the device keeps for them."""
        self._sessions.clear()
        self._expected.clear()
        if self.on_gpu:
            gc.collect()
            torch.cuda.empty_cache()

    def _sizes(self) -> Sizes:
        lengths = [len(one.ids) for one in self.sequences.values()]
        # a page's worth more for each, as none begins on another one's page
        room = sum(lengths) + 2 * max(self.borders) * len(lengths)
        longest = max(*lengths, self.longest) + 2 * max(self.borders)
        return Sizes(tokens=max(room, longest), sequences=len(lengths), longest=longest)


def clean(session: Session) -> None:
    """Caches as they are made."""
    for parts in session.storage.parts.values():
        for part in parts.values():
            part.zero_()


def soil(session: Session, seed: int) -> None:
    """Caches as many owners have left them: nothing that is read before it is written is zero."""
    for number, parts in enumerate(session.storage.parts.values()):
        for part in parts.values():
            generator = torch.Generator(part.device).manual_seed(seed + number)
            drawn = torch.randn(part.shape, generator=generator, device=part.device)
            part.copy_(8 * drawn)
