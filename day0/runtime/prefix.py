"""Prefixes that were computed before: a tree over pages of tokens, with states at some borders.

A node stands for one page of tokens behind its parent's, and holds that page of the caches that
keep all tokens, by reference. What lives in slots (recurrent state, tails of convolutions, open
pools) and in windows exists at one position only: a node that has a copy of it can be resumed from.
A request takes the deepest such node and computes the rest. Nodes shorter than a page stand where a
sequence ended; whoever goes on from there writes into a copy of that page.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from day0.ir.cache import STATE_INTERVAL, CacheSpec
from day0.runtime.pools import Pool, first_kept, paged
from day0.runtime.request import Request
from day0.runtime.sharing import Places, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A state at a node's end, and by window the (number in the table, page) that it can read."""

    state: State
    windows: Mapping[int, tuple[tuple[int, int], ...]]


@dataclass(slots=True, eq=False)
class Node:
    """`tokens` of its page, `page` its number (0: the model has no such caches), `depth` tokens up
    to its end, `used` the last time, `kept` what it can be resumed with."""

    tokens: tuple[int, ...]
    parent: "Node | None" = None
    page: int = 0
    depth: int = 0
    used: int = 0
    kept: Kept | None = None
    children: dict[tuple[int, ...], "Node"] = field(default_factory=dict)

    def path(self) -> list["Node"]:
        """From the first page to this node."""
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass(slots=True)
class Reuse:
    """Counts of one engine: `asked` tokens of all prompts, `saved` of them found, `hits` requests
    that found any, `evicted` nodes."""

    requests: int = 0
    hits: int = 0
    asked: int = 0
    saved: int = 0
    evicted: int = 0


class PrefixCache:
    """Prefixes of what an engine serves, up to `budget` bytes of pages and states."""

    def __init__(
        self,
        places: Places,
        caches: Sequence[CacheSpec],
        pools: Mapping[int, Pool],
        *,
        page_size: int,
        budget: int,
        interval: int = STATE_INTERVAL,
    ) -> None:
        """`interval`: tokens between two states, rounded up to whole pages."""
        self.places = places
        self.page_size = page_size
        self.budget = budget
        self.interval = -(-interval // page_size) * page_size
        self.counts = Reuse()
        self.held = 0  # bytes
        self._pools = pools
        self._stateful = any(pools_of for pools_of in pools if pools_of) or not all(
            paged(cache) for cache in caches
        )
        self._root = Node(tokens=())
        self._clock = 0
        self._order = 0
        self._leaves: list[tuple[int, int, Node]] = []  # a heap; out of date entries are skipped

    @property
    def state_bytes(self) -> int:
        """Of the states alone."""
        return self.places.state_bytes * sum(node.kept is not None for node in self.nodes())

    def figures(self, before: Reuse | None = None) -> dict[str, float | int | None]:
        """Counts since `before`, and what is held now, by the names of the run's metrics."""
        old, now = before or Reuse(), self.counts
        asked, saved = now.asked - old.asked, now.saved - old.saved
        return {
            "prefix_cache_hits": now.hits - old.hits,
            "prefix_cache_hit_rate": saved / asked if asked else None,
            "prefix_cache_tokens_saved": saved,
            "prefix_cache_evicted": now.evicted - old.evicted,
            "prefix_cache_bytes": self.held,
            "prefix_cache_state_bytes": self.state_bytes,
        }

    def nodes(self) -> Iterator[Node]:
        """All of them."""
        waiting = list(self._root.children.values())
        while waiting:
            node = waiting.pop()
            waiting.extend(node.children.values())
            yield node

    def rows(self, request: Request, rows: int) -> int:
        """So many rows of a prefill step, or fewer, to end where a state is wanted: at multiples of
        the interval, and behind the last whole page of the prompt."""
        if not self._stateful:
            return rows
        following = (request.done // self.interval + 1) * self.interval
        last = (len(request.tokens) - 1) // self.page_size * self.page_size
        borders = [border for border in (following, last) if border > request.done]
        return min([rows, *(border - request.done for border in borders)])

    def find(self, tokens: Sequence[int]) -> Node | None:
        """The deepest node that `tokens` can be resumed from; one token at least is left over."""
        node, best, size = self._root, None, self.page_size
        while True:
            rest = tokens[node.depth : node.depth + size]
            for end in node.children.values():
                short = len(end.tokens)
                fits = short < size and list(end.tokens) == list(rest[:short])
                if fits and end.depth < len(tokens) and (best is None or end.depth > best.depth):
                    best = end
            following = node.children.get(tuple(rest))
            if following is None or following.depth >= len(tokens):
                return best
            node = following
            if node.kept is not None or not self._stateful:
                best = node

    def resume(self, request: Request) -> bool:
        """Give a request that holds a slot and nothing else the pages and the state of what its
        tokens begin with; whether there was any."""
        self.counts.requests += 1
        self.counts.asked += len(request.tokens)
        node = self.find(request.tokens)
        if node is None or not self._give_pages(request, node):
            return False
        if node.kept is not None:
            self.places.restore(request.slot, node.kept.state)
        request.done = node.depth
        for one in node.path():
            self._touch(one)
        self.counts.hits += 1
        self.counts.saved += node.depth
        return True

    def take_back(self, request: Request) -> None:
        """The request could not be admitted after all."""
        self.counts.requests -= 1
        self.counts.asked -= len(request.tokens)
        if request.done:
            self.counts.hits -= 1
            self.counts.saved -= request.done
            request.done = 0

    def saw(self, request: Request) -> None:
        """Tokens of a request are in the caches up to `done`; keep its whole pages, and its state
        where `rows` made it end for that."""
        size = self.page_size
        last = (len(request.prompt) - 1) // size * size
        border = request.done % size == 0 and request.done > 0
        if border and (request.done % self.interval == 0 or request.done == last):
            self._keep(request)

    def leaves(self, request: Request) -> None:
        """A request ends: its last state is kept, in the middle of a page too, for its next turn.
        Before its pages are given back."""
        if request.done:
            self._keep(request)

    def add(self, tokens: Sequence[int], pages: Sequence[int], kept: Kept | None) -> None:
        """Nodes for all of `tokens` over `pages` that somebody holds, resumable at the end."""
        node, size = self._root, self.page_size
        for number, start in enumerate(range(0, len(tokens), size)):
            own = tuple(tokens[start : start + size])
            child = node.children.get(own)
            if child is None:
                page = pages[number] if 0 in self._pools else 0
                child = Node(tokens=own, parent=node, page=page, depth=start + len(own))
                if page:
                    self._pools[0].share([page])
                node.children[own] = child
                self.held += self._page_bytes(0) if page else 0
            self._touch(child)
            node = child
        if node.kept is None and kept is not None:
            for span, held in kept.windows.items():
                self._pools[span].share(page for _, page in held)
            node.kept = kept
            self.held += self._kept_bytes(kept)
        while self.held > self.budget and self._evict():
            pass

    def take_in(
        self,
        tokens: Sequence[int],
        pages: Mapping[int, tuple[Sequence[int], State]],
        state: State,
    ) -> bool:
        """A text that somebody else computed: by span the numbers in the table and the contents of
        pages, and the state of a slot. False where it does not fit."""
        taken: dict[int, list[int]] = {}
        for span, (numbers, _) in pages.items():
            self.reclaim(span, len(numbers))
            fresh = self._pools[span].take(len(numbers))
            if fresh is None:
                break
            taken[span] = fresh
        fits = len(taken) == len(pages)
        if fits:
            for span, (_, held) in pages.items():
                self.places.fill_pages(span, taken[span], held)
            windows = {
                span: tuple(zip(numbers, taken[span], strict=True))
                for span, (numbers, _) in pages.items()
                if span
            }
            kept = None
            if self._stateful:
                on_device = [
                    {name: value.to(buffers[name].device) for name, value in own.items()}
                    for own, buffers in zip(state, self.places.slots(), strict=True)
                ]
                kept = Kept(state=tuple(on_device), windows=windows)
            self.add(tokens, taken.get(0, ()), kept)
            fits = self.find([*tokens, -1]) is not None
        for span, numbers in taken.items():
            self._pools[span].give(numbers)
        return fits

    def reclaim(self, span: int, count: int) -> None:
        """Evict until `count` pages of a span are free, or nothing is left to evict."""
        while self._pools[span].free < count and self._evict():
            pass

    def clear(self) -> None:
        """Evict all."""
        while self._evict():
            pass

    def _keep(self, request: Request) -> None:
        kept = None
        if self._stateful:
            windows = {
                span: tuple(
                    (number, page)
                    for number, page in enumerate(table)
                    if page and number >= first_kept(span, request.done) // self.page_size
                    and number * self.page_size < request.done
                )
                for span, table in request.pages.items()
                if span
            }  # fmt: skip
            kept = Kept(state=self.places.state(request.slot), windows=windows)
        self.add(request.tokens[: request.done], request.pages.get(0, ()), kept)

    def _give_pages(self, request: Request, node: Node) -> bool:
        """Shared pages in the request's tables; a page that is not full is copied, as it is going
        to be written. False where there is no page for the copy."""
        size = self.page_size
        tables = {0: [(number, one.page) for number, one in enumerate(node.path())]}
        tables |= {} if node.kept is None else {s: list(h) for s, h in node.kept.windows.items()}
        copies: dict[int, tuple[int, int]] = {}
        for span in self._pools:
            if node.depth % size and tables.get(span):
                self.reclaim(span, 1)
                fresh = self._pools[span].take(1)
                if fresh is None or node.parent is None or tables[span][-1][1] == 0:
                    self._undo(copies, fresh, span)
                    return False
                copies[span] = (tables[span][-1][1], fresh[0])
        for span in self._pools:
            table = [0] * (-(-node.depth // size))
            for number, page in tables.get(span, ()):
                table[number] = page
            shared = [page for page in table if page]
            if span in copies:
                source, fresh = copies[span]
                self.places.copy_page(span, source, fresh)
                table[-1] = fresh
                shared.remove(source)
            self._pools[span].share(shared)
            request.pages[span] = table
        return True

    def _undo(self, copies: dict[int, tuple[int, int]], fresh: list[int] | None, span: int) -> None:
        for other, (_, page) in copies.items():
            self._pools[other].give([page])
        self._pools[span].give(fresh or ())

    def _touch(self, node: Node) -> None:
        self._clock += 1
        node.used = self._clock
        if not node.children:
            self._queue(node)

    def _queue(self, node: Node) -> None:
        self._order += 1
        heapq.heappush(self._leaves, (node.used, self._order, node))

    def _evict(self) -> bool:
        """The leaf that was not used for longest goes; False where there is none."""
        while self._leaves:
            used, _, node = heapq.heappop(self._leaves)
            parent = node.parent
            if node.children or used != node.used or parent is None:
                continue  # not a leaf any more, used since, or gone
            del parent.children[node.tokens]
            node.parent = None
            if node.page:
                self._pools[0].give([node.page])
                self.held -= self._page_bytes(0)
            if node.kept is not None:
                for span, held in node.kept.windows.items():
                    self._pools[span].give(page for _, page in held)
                self.held -= self._kept_bytes(node.kept)
            if parent.parent is not None and not parent.children:
                self._queue(parent)
            self.counts.evicted += 1
            return True
        return False

    def _page_bytes(self, span: int) -> int:
        return self.places.page_bytes(span)

    def _kept_bytes(self, kept: Kept) -> int:
        windows = sum(self._page_bytes(span) * len(held) for span, held in kept.windows.items())
        return self.places.state_bytes + windows


# what makes a cache for an engine, whose pools it shares
Maker = Callable[[Mapping[int, Pool]], PrefixCache]
