"""Layout of the input pipeline: sources at the left, the training loop at the right. ``charts.html`` draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slowtrain.model import InputNode
from slowtrain.report import wording

PAGE_PX, GAP_PX, BOX_HEIGHT_PX, ROW_PX = 1100, 30, 118, 140
MIN_BOX_PX, MAX_BOX_PX = 142, 210
LETTER_PX = 6.7  # width of a letter in the node's font


@dataclass(frozen=True)
class Box:
    """A node at its place; ``fill_px`` is the length of its bar, 0 where its time is not measured."""

    x: float
    y: float
    title: str
    label: str
    cost: str
    fill_px: float
    facts: tuple[str, ...]
    bottleneck: bool


@dataclass(frozen=True)
class PipelineGraph:
    width: int
    height: int
    box_width: int
    box_height: int
    edges: tuple[str, ...]  # path data
    boxes: tuple[Box, ...]


def pipeline_graph(nodes: Sequence[InputNode]) -> PipelineGraph:
    """One box a node, one column for each step away from a source."""
    columns = _node_columns(nodes)
    count = len(columns)
    width = min(max((PAGE_PX - (count - 1) * GAP_PX) // count, MIN_BOX_PX), MAX_BOX_PX)
    tallest = max(len(column) for column in columns)
    places: dict[str, tuple[float, float]] = {}
    for at, column in enumerate(columns):
        for row, node in enumerate(column):
            y = 14 + (tallest - len(column)) * ROW_PX / 2 + row * ROW_PX
            places[node.id] = (1 + at * (width + GAP_PX), y)
    most = max((wording.finite_or_none(n.ms_per_step) or 0.0 for n in nodes), default=0.0)
    edges = [_edge_path(places[i], places[n.id], width) for n in nodes for i in n.inputs if i in places and i != n.id]
    boxes = [_node_box(node, places[node.id], width, most) for node in nodes]
    total_width, height = 2 + count * (width + GAP_PX) - GAP_PX, tallest * ROW_PX + 2
    return PipelineGraph(total_width, height, width, BOX_HEIGHT_PX, tuple(edges), tuple(boxes))


def _node_columns(nodes: Sequence[InputNode]) -> list[list[InputNode]]:
    """Nodes from left to right, each just left of the first that reads it, and beside it rather than across."""
    known = {node.id: node for node in nodes}
    distance = dict.fromkeys(known, 0)  # from the training loop
    for _ in known:  # a damaged recording may hold a cycle, so the rounds are counted
        for node in known.values():
            for i in node.inputs:
                if i in known and i != node.id:
                    distance[i] = min(max(distance[i], distance[node.id] + 1), len(known))
    columns: list[list[InputNode]] = []
    row: dict[str, float] = {}
    for step in sorted(set(distance.values())):
        column = [node for node in known.values() if distance[node.id] == step]
        placed = [n for n in known.values() if n.id in row]
        ranked = sorted((_reader_row(node, placed, row), at) for at, node in enumerate(column))
        column = [column[at] for _, at in ranked]
        row |= {node.id: float(at) for at, node in enumerate(column)}
        columns.insert(0, column)
    return columns


def _reader_row(node: InputNode, placed: Sequence[InputNode], row: Mapping[str, float]) -> float:
    """Where the first reader of a node stands, and as which of its inputs."""
    return min((row[n.id] + n.inputs.index(node.id) / 99 for n in placed if node.id in n.inputs), default=0.0)


def _edge_path(start: tuple[float, float], end: tuple[float, float], width: float) -> str:
    x1, y1, x2, y2 = start[0] + width, start[1] + BOX_HEIGHT_PX / 2, end[0], end[1] + BOX_HEIGHT_PX / 2
    middle = (x1 + x2) / 2
    head = f"M{x2 - 7:g},{y2 - 4:g}L{x2 - 1:g},{y2:g}L{x2 - 7:g},{y2 + 4:g}"
    return f"M{x1:g},{y1:g}C{middle:g},{y1:g} {middle:g},{y2:g} {x2 - 1:g},{y2:g}{head}"


def _node_box(node: InputNode, place: tuple[float, float], width: int, most: float) -> Box:
    letters = int((width - 20) / LETTER_PX)
    cost = wording.finite_or_none(node.ms_per_step)
    name = node.label or node.name
    source = f", {node.place} {node.place.code}" if node.place else ""
    return Box(
        *place,
        title=f"{name} ({node.name}): {wording.duration_text(node.ms_per_step)} a step{source}",
        label=wording.shortened_text(name, letters),
        cost=wording.UNKNOWN if cost is None else f"{wording.duration_text(cost)} a step",
        fill_px=max((width - 20) * cost / most, 1) if cost and most else 0,
        facts=tuple(wording.shortened_text(fact, letters + 1) for fact in _node_facts(node)),
        bottleneck=node.bottleneck,
    )


def _node_facts(node: InputNode) -> Iterator[str]:
    """Three lines at most: what passes, how it runs, where it is written."""
    elements = f"{wording.number_text(node.elements_per_step)} el" if node.elements_per_step is not None else ""
    size = wording.bytes_text(node.bytes_per_step) if node.bytes_per_step is not None else ""
    if elements or size:
        yield " · ".join(filter(None, (elements, size)))
    if node.parallelism is not None:
        yield f"parallelism {wording.number_text(node.parallelism)}"
    if node.place is not None:
        yield str(node.place)
