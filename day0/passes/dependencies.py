"""What must have ended before an op may start: value edges and the order of cache uses."""

from day0.ir.graph import Graph


def dependencies(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """For every op, in program order, the numbers of earlier ops it depends on: those that yield
    its inputs, the last one that wrote a cache it uses, and, where it writes one itself, those that
    have read it since. Reads of the same entries do not order each other."""
    maker: dict[str, int] = {}
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    found = []
    for number, op in enumerate(graph.ops):
        before = {maker[value] for _, value in op.inputs if value in maker}
        for use in op.caches:
            if use.cache in writer:
                before.add(writer[use.cache])
            if "w" in use.mode:
                before.update(readers.get(use.cache, ()))
        for use in op.caches:
            if "w" in use.mode:
                writer[use.cache], readers[use.cache] = number, []
            else:
                readers.setdefault(use.cache, []).append(number)
        before.discard(number)
        maker.update((value, number) for _, value in op.outputs)
        found.append(tuple(sorted(before)))
    return tuple(found)


def waists(before: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Ops that every earlier op comes before and every later op comes after: nothing runs beside
    them, so what lies between two of them is scheduled on its own."""
    count = len(before)
    first_user = [count] * count
    for number, deps in enumerate(before):
        for dep in deps:
            first_user[dep] = min(first_user[dep], number)
    last_dep = [max(deps, default=-1) for deps in before]
    behind = [count] * (count + 1)  # least last_dep of all ops from here on
    for number in range(count - 1, -1, -1):
        behind[number] = min(behind[number + 1], last_dep[number])
    result, latest = [], 0  # latest: the largest first_user of all ops so far
    for number in range(count):
        if latest <= number and behind[number + 1] >= number:
            result.append(number)
        latest = max(latest, first_user[number])
    return tuple(result)
