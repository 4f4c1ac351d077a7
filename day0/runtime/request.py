"""A request while it is served."""

from dataclasses import dataclass, field

from day0.runtime.sampling import Sampling


@dataclass(slots=True, eq=False)
class Request:
    """`tokens` prompt and produced ids; `done` tokens already in the caches; `slot`: the place of
    its present state in the slotted caches; `pages` per span; `finish` "", "length", "stop" or
    "cancelled"; `forks`: requests that take its prompt over. A request equals itself alone:
    comparing tokens would rule a step of many."""

    number: int
    prompt: tuple[int, ...]
    sampling: Sampling
    tokens: list[int] = field(default_factory=list)
    done: int = 0
    slot: int = 0
    pages: dict[int, list[int]] = field(default_factory=dict)
    finish: str = ""
    preemptions: int = 0
    forks: list["Request"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    @property
    def produced(self) -> list[int]:
        return self.tokens[len(self.prompt) :]

    @property
    def num_produced(self) -> int:
        return len(self.tokens) - len(self.prompt)

    @property
    def most(self) -> int:
        """Tokens it may have in the end."""
        return len(self.prompt) + self.sampling.max_new_tokens

    @property
    def pending(self) -> int:
        """Tokens that no step has seen yet."""
        return len(self.tokens) - self.done

    @property
    def decoding(self) -> bool:
        """One new token behind a filled cache."""
        return self.pending == 1 and self.done > 0
