"""The input pipeline as a graph: sources at the left, the training loop at the right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slowtrain.model import InputNode
from slowtrain.report import wording
from slowtrain.report.markup import Markup, el

_PAGE, _GAP, _HEIGHT, _ROW = 1100, 30, 118, 140
_NARROWEST, _WIDEST = 142, 210
_LETTER = 6.7  # width of a letter of the node's font, in pixels


def pipeline(nodes: Sequence[InputNode]) -> Markup:
    """One box a node, one column for each step away from a source."""
    columns = _columns(nodes)
    count = len(columns)
    width = min(max((_PAGE - (count - 1) * _GAP) // count, _NARROWEST), _WIDEST)
    tallest = max(len(column) for column in columns)
    places: dict[str, tuple[float, float]] = {}
    for at, column in enumerate(columns):
        for row, node in enumerate(column):
            y = 14 + (tallest - len(column)) * _ROW / 2 + row * _ROW
            places[node.id] = (1 + at * (width + _GAP), y)
    most = max((wording.finite(n.ms_per_step) or 0.0 for n in nodes), default=0.0)
    total_width, height = 2 + count * (width + _GAP) - _GAP, tallest * _ROW + 2
    edges = [
        _edge(places[i], places[node.id], width) for node in nodes for i in node.inputs if i in places and i != node.id
    ]
    boxes = [_box(node, places[node.id], width, most) for node in nodes]
    return el(
        "svg", edges, boxes, class_="graph",
        viewBox=f"0 0 {total_width} {height}", width=str(total_width), height=str(height),
        role="img", aria_label=f"Input pipeline of {len(nodes)} nodes; the table below has the same figures",
    )  # fmt: skip


def _columns(nodes: Sequence[InputNode]) -> list[list[InputNode]]:
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


def _edge(start: tuple[float, float], end: tuple[float, float], width: float) -> Markup:
    x1, y1, x2, y2 = start[0] + width, start[1] + _HEIGHT / 2, end[0], end[1] + _HEIGHT / 2
    middle = (x1 + x2) / 2
    head = f"M{x2 - 7:g},{y2 - 4:g}L{x2 - 1:g},{y2:g}L{x2 - 7:g},{y2 + 4:g}"
    return el("path", d=f"M{x1:g},{y1:g}C{middle:g},{y1:g} {middle:g},{y2:g} {x2 - 1:g},{y2:g}{head}", class_="edge")


def _box(node: InputNode, place: tuple[float, float], width: float, most: float) -> Markup:
    x, y = place
    letters = int((width - 20) / _LETTER)
    cost = wording.finite(node.ms_per_step)
    shapes: list[Markup] = [
        el("title", _said(node)),
        el("rect", x=x, y=y, width=width, height=float(_HEIGHT), rx="7", class_="node"),
        el("text", wording.cut(node.label or node.name, letters), x=x + 10, y=y + 21, class_="label"),
        el(
            "text",
            "not measured" if cost is None else f"{wording.duration(cost)} a step",
            x=x + 10,
            y=y + 41,
            class_="cost",
        ),
        el("rect", x=x + 10, y=y + 48, width=width - 20, height="5", rx="2.5", class_="track"),
    ]
    if cost and most:
        shapes.append(
            el(
                "rect",
                x=x + 10,
                y=y + 48,
                width=max((width - 20) * cost / most, 1),
                height="5",
                rx="2.5",
                class_="fill",
            )
        )
    for row, text in enumerate(_facts(node)):
        shapes.append(el("text", wording.cut(text, letters + 1), x=x + 10, y=y + 70 + row * 15, class_="note"))
    if node.bottleneck:
        tag = el("rect", x=x + 10, y=y - 9, width="78", height="17", rx="8.5", class_="tag")
        shapes += [tag, el("text", "bottleneck", x=x + 49, y=y + 3.5, text_anchor="middle", class_="tagged")]
    return el("g", shapes, class_="slow" if node.bottleneck else None)


def _facts(node: InputNode) -> Iterator[str]:
    """Three lines at most: what passes, how it runs, where it is written."""
    passes = []
    if node.elements_per_step is not None:
        passes.append(f"{wording.number(node.elements_per_step)} el")
    if node.bytes_per_step is not None:
        passes.append(wording.size(node.bytes_per_step))
    if passes:
        yield " · ".join(passes)
    if node.parallelism is not None:
        yield f"parallelism {wording.number(node.parallelism)}"
    if node.place is not None:
        yield str(node.place)


def _said(node: InputNode) -> str:
    place = f", {node.place} {node.place.code}" if node.place else ""
    return f"{node.label or node.name} ({node.name}): {wording.duration(node.ms_per_step)} a step{place}"
