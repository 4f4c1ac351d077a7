"""Where the boxes of a diagram stand and which way its arrows run: fast-sugiyama's layered layout,
in pixels of an SVG."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from fast_sugiyama import from_edges

from day0.report.parts import Diagram, Edge, Node

# One step of the grid, and the box in it.
STEP_X, STEP_Y = 188.0, 78.0
BOX_WIDTH, BOX_HEIGHT = 168.0, 42.0
MARGIN = 12.0
TIP = 5.0  # of an arrow
AROUND = "around"
BULGE = 22.0  # of an arrow that goes around one step
LETTER = 6.0  # width of one in a label, about
PASSING = 0.3  # room for an arrow that passes by, in steps

Point = tuple[float, float]
Name = str | tuple[int, int]  # of a node, or of a bend


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node and the middle of its box."""

    node: Node
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An edge, the SVG path it runs along, and the place of its label."""

    edge: Edge
    path: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A diagram with places: `width` and `height` in pixels."""

    name: str
    title: str
    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    labelled: bool


def draw(diagram: Diagram) -> Drawing:
    """Lay a diagram out from top to bottom; parts that no arrow joins stand side by side."""
    places, ways = _lay_out(diagram)
    left, top = (min(place[axis] for place in places.values()) for axis in (0, 1))
    placed = {
        name: (
            MARGIN + BOX_WIDTH / 2 + (x - left) * STEP_X,
            MARGIN + BOX_HEIGHT / 2 + (y - top) * STEP_Y,
        )
        for name, (x, y) in places.items()
    }
    arrows = []
    right = 0.0
    for edge in diagram.edges:
        if edge.style == AROUND:
            start, end = placed[edge.source], placed[edge.target]
            bulge = BULGE * (1 + abs(end[1] - start[1]) / STEP_Y)
            arrows.append(_around(edge, start, end, bulge))
            reach = arrows[-1].x + LETTER * len(edge.label) * diagram.labelled
            right = max(right, reach - BOX_WIDTH / 2)
        else:
            way = [placed[name] for name in ways[edge.source, edge.target]]
            x, y = way[len(way) // 2] if len(way) > 2 else _middle(way[0], way[1])
            arrows.append(Arrow(edge=edge, path=_path(way), x=x, y=y))
    right = max(right, *(x for x, _ in placed.values()))
    return Drawing(
        name=diagram.name,
        title=diagram.title,
        width=right + BOX_WIDTH / 2 + MARGIN,
        height=max(y for _, y in placed.values()) + BOX_HEIGHT / 2 + MARGIN,
        boxes=tuple(
            Box(node=node, x=placed[node.id][0], y=placed[node.id][1]) for node in diagram.nodes
        ),
        arrows=tuple(arrows),
        labelled=diagram.labelled,
    )


def _lay_out(
    diagram: Diagram,
) -> tuple[dict[Name, Point], dict[tuple[str, str], tuple[Name, ...]]]:
    """Grid places of nodes and of the bends of long arrows, and the names on each arrow's way."""
    edges = [edge for edge in diagram.edges if edge.style != AROUND]
    joined = dict.fromkeys(end for edge in edges for end in (edge.source, edge.target))
    names, numbers = tuple(joined), {name: number for number, name in enumerate(joined)}
    pairs = dict.fromkeys((numbers[edge.source], numbers[edge.target]) for edge in edges)
    places: dict[Name, Point] = {}
    ways: dict[tuple[str, str], tuple[Name, ...]] = {}
    right = 0.0
    layouts = from_edges(
        list(pairs),
        minimum_length=1,
        vertex_spacing=1.0,
        dummy_vertices=True,
        dummy_size=PASSING,
        crossing_minimization="median",
        transpose=True,
    )
    for number, (positions, width, _, parts) in enumerate(layouts):
        # Bends have numbers beyond the nodes', anew in each layout.
        called = {
            at: names[at] if at < len(names) else (number, at)
            for at, _ in positions
            if isinstance(at, int)
        }
        low, high = min(x for _, (x, _) in positions), max(y for _, (_, y) in positions)
        for at, (x, y) in positions:
            places[called[int(at)]] = (x - low + right, high - y)
        following: dict[Name, list[Name]] = defaultdict(list)
        for source, target in parts or ():
            following[called[int(source)]].append(called[int(target)])
        ways.update(_ways(following))
        right += width + 1.0
    for node in diagram.nodes:
        if node.id not in places:
            places[node.id] = (right, 0.0)
            right += 1.0
    return places, ways


def _ways(following: dict[Name, list[Name]]) -> dict[tuple[str, str], tuple[Name, ...]]:
    """From node to node through bends, of which each has one way out."""
    found = {}
    for source, targets in following.items():
        if isinstance(source, str):
            for target in targets:
                way = [source, target]
                while not isinstance(way[-1], str):
                    way.append(following[way[-1]][0])
                found[source, way[-1]] = tuple(way)
    return found


def _around(edge: Edge, start: Point, end: Point, bulge: float) -> Arrow:
    """A bow on the right of the boxes."""
    half = BOX_WIDTH / 2
    (x0, y0), (x1, y1) = (start[0] + half, start[1]), (end[0] + half + TIP, end[1])
    out = max(x0, x1) + bulge
    path = f"M{x0:.0f} {y0:.0f}C{out:.0f} {y0:.0f} {out:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"
    return Arrow(edge=edge, path=path, x=max(x0, x1) + 0.75 * bulge, y=(y0 + y1) / 2)


def _middle(one: Point, two: Point) -> Point:
    return (one[0] + two[0]) / 2, (one[1] + two[1]) / 2


def _path(way: list[Point]) -> str:
    """Curves that leave and reach boxes and bends vertically."""
    half = BOX_HEIGHT / 2
    points = [(way[0][0], way[0][1] + half), *way[1:-1], (way[-1][0], way[-1][1] - half - TIP)]
    path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f} {x1:.0f} {y1:.0f}"
    return path
