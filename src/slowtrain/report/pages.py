"""Answers as HTML: each page is one self-contained file, which fetches nothing and works without script.

The pages are Jinja2 templates under ``templates/``. Jinja2 escapes each value where it is put in. Before that,
``_printable_value`` removes the controls with which a name could steer a terminal or turn the direction of the text.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from slowtrain.model import Attribution, Band, Chart, Checkup, InputNode, Part, Pictures
from slowtrain.model.inspections import CheckState, Sheet
from slowtrain.model.measurements import BatchCurve, Crossover, MemoryAnswer, Proof
from slowtrain.model.shrinking import Shrinking
from slowtrain.number_text import format_count, format_number
from slowtrain.report import charts, documents, wording
from slowtrain.shared.exhaustion import Dump, Exhaustion

TEMPLATES = Path(__file__).with_name("templates")
# Colours of the page's own, by part of the memory.
MEMORY_COLOURS = {
    "parameters": "python",
    "optimizer": "callback",
    "gradients": "d2h",
    "activations": "device",
    "input": "input",
    "workspace": "dispatch",
    "step": "device",
    "other": "unattributed",
}


def checkup_page(checkup: Checkup, pages: Mapping[str, str]) -> str:
    """The report; ``pages`` holds the Markdown page of each cause that was found, by its id."""
    return _fill_template(
        "checkup.html",
        documents.checkup_json(checkup),
        checkup=checkup,
        pages=pages,
        largest_gain=max((wording.finite_or_none(d.saving.high) or 1.0 for d in checkup.diagnoses), default=1.0),
        missing_pictures=_missing_pictures(checkup.pictures),
    )


def proof_page(found: Proof, *, written: bool) -> str:
    """The page of a proof: the answer, the attempts, the checkups before and after, and the patch."""
    from slowtrain.report import proof

    largest = max((a.verdict.speedup for a in found.attempts if a.verdict is not None), default=1.0)
    return _fill_template(
        "proof.html",
        proof.proof_json(found, written=written),
        found=found,
        written=written,
        proof=proof,
        largest_gain=largest,
        by_hand=[proof.manual_remedy(one) for one in found.by_hand],
    )


def oom_page(found: Exhaustion) -> str:
    """What ran out of memory, and why."""
    from slowtrain.report import oom

    retries = sorted(found.retries.items())
    notes = [
        *found.notes,
        *(f"{name}: {format_count(times, 'request')} found no memory at first" for name, times in retries),
    ]
    return _fill_template("oom.html", oom.oom_json(found), found=found, notes=notes, oom=oom, pool_parts=_pool_parts)


def memory_page(found: MemoryAnswer) -> str:
    """What a script needs of a device's memory."""
    from slowtrain.report import sizing

    part_by_colour = {MEMORY_COLOURS[name]: (name, size) for name, size in found.need.parts.items() if size}
    return _fill_template(
        "memory.html",
        sizing.memory_json(found),
        found=found,
        sizing=sizing,
        colours=MEMORY_COLOURS,
        segments=_size_segments(part_by_colour, max(found.need.peak_bytes, 1)),
        notes=[sizing.measurement_text(found), *([sizing.trial_text(found)] if found.tried else ()), *found.notes],
    )


def batch_page(curve: BatchCurve) -> str:
    """Throughput and memory over the batch size."""
    from slowtrain.report import sizing

    x = tuple(float(p.batch) for p in curve.points)
    knee = [Band("past the knee", float(curve.knee), max(x))] if curve.knee is not None and curve.knee < max(x) else []
    rates = Chart("Samples a second", "batch", "samples/s", x, tuple(p.samples_per_s for p in curve.points))
    bytes_ = tuple(float(p.peak_bytes) for p in curve.points if p.peak_bytes is not None)
    limit = (float(curve.device.limit_bytes), curve.device.name) if curve.device is not None else None
    memory = Chart("Memory at its peak", "batch", "bytes", x, bytes_)
    most, ends = sizing.batch_limit(curve), sizing.knee_range(curve)
    return _fill_template(
        "batch.html",
        sizing.batch_json(curve),
        curve=curve,
        sizing=sizing,
        rates=charts.line_plot(rates, bands=knee),
        memory=charts.line_plot(memory, level=limit) if len(bytes_) == len(x) else None,
        notes=[n for n in (ends and f"knee: {ends}", most and f"limit: {most}", curve.ended, *curve.notes) if n],
    )


def crossover_page(found: Crossover) -> str:
    """From which batch on one device overtakes the other."""
    from slowtrain.report import crossover

    curves = []
    for side in found.sides:
        points = [(b, at.low, at.value, at.high) for b, at in side.fit.drawn] if side.fit is not None else []
        batches = sorted({t.batch for t in side.timings})
        dots = [(float(b), crossover.mean_step_ms(side, b) or 0.0) for b in batches]
        curves.append(charts.Curve(side.name, points, dots))
    most = max(float(t.batch) for side in found.sides for t in side.timings)
    start, crossing = found.batch, None
    if start is not None and 0 < start.value <= most:
        crossing = (Band("the order changes", start.low, min(start.high, most)), start.value)
    plot = charts.curve_plot(Chart("A step over the batch", "batch", "ms", (), ()), curves, crossing)
    return _fill_template(
        "crossover.html", crossover.crossover_json(found), found=found, crossover=crossover, plot=plot
    )


def shrink_page(found: Shrinking) -> str:
    """What cheaper models do to a step, to memory and to the loss."""
    from slowtrain.report import shrink

    return _fill_template("shrink.html", shrink.shrink_json(found), found=found, shrink=shrink)


def doctor_page(sheet: Sheet) -> str:
    """The doctor's sheet."""
    from slowtrain.report import doctor

    return _fill_template("doctor.html", doctor.doctor_json(sheet), sheet=sheet, State=CheckState)


def _fill_template(template: str, data: str, **values: Any) -> str:
    """``data`` is the same answer as JSON, for machines."""
    return _template_environment().get_template(template).render(data=_script_data(data), **values)


class _TemplateCache(jinja2.FileSystemBytecodeCache):
    """Compiled templates, where Python keeps compiled modules: compiling takes 0.1 s, reading them 0.01 s."""

    def __init__(self) -> None:
        folder = Path(importlib.util.cache_from_source(str(TEMPLATES / "page.py"))).parent
        super().__init__(str(folder), f"%s.jinja2-{jinja2.__version__}.cache")

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):  # a folder that cannot be written keeps nothing
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


@functools.cache
def _template_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=_TemplateCache(),
    )
    environment.globals.update(
        asset=_read_asset,
        charts=charts,
        count=format_count,
        diff_lines=_diff_lines,
        pipeline_graph=pipeline_graph,
        plain=format_number,
        wording=wording,
    )
    environment.filters.update(
        colour_class=charts.colour_class,
        lines=_printable_lines,
        markdown=markdown_html,
        percent=charts.percent,
        sha256=lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
    )
    return environment


def _printable_value(value: Any) -> Any:
    """A value as a template shows it, before it is escaped: names without controls, figures with two decimals."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value if isinstance(value, Markup) else wording.printable_text(value)


def _printable_lines(text: str) -> Markup:
    return escape(wording.printable_text(text, keep_lines=True))


def _read_asset(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704  our own file


def _script_data(document: str) -> Markup:
    """JSON without any ``<``, so that nothing can close the element early."""
    text = document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(text)  # noqa: S704


def markdown_html(source: str) -> Markup:
    """A cause's page. A heading becomes ``<h4>`` whatever its depth. Links and images stay text, and so does HTML."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).disable(
        ["link", "image", "autolink", "reference"]
    )
    tokens = parser.parse(wording.printable_text(source, keep_lines=True))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h4"
    html = parser.renderer.render(tokens, parser.options, {})
    return Markup(html.replace("<pre>", '<pre tabindex="0">'))  # noqa: S704  all text in it is escaped


def _diff_lines(source: str) -> Iterator[tuple[str, str]]:
    """The class of each line and the line."""
    kinds = {"+": "add", "-": "del", "@": "hunk"}
    for line in wording.printable_text(source, keep_lines=True).rstrip("\n").split("\n"):
        yield "file" if line.startswith(("+++", "---")) else kinds.get(line[:1], "same"), line + "\n"


def _missing_pictures(pictures: Pictures) -> list[str]:
    drawn = {
        "step time over the run": pictures.step_times is not None and pictures.step_times.y,
        "one typical step, which needs a profiler window with steady steps in it": pictures.typical_step,
        "the input pipeline, which needs a tf.data graph": pictures.input_graph,
        "memory and machine": pictures.series,
    }
    return [f"{name}: {wording.UNKNOWN}" for name, picture in drawn.items() if not picture]


def _size_segments(part_by_colour: Mapping[str, tuple[str, int]], whole: int) -> list[charts.Stretch]:
    """A bar of bytes. ``part_by_colour``: the name and the size of each part."""
    parts = tuple(Part(colour, float(size), size / whole) for colour, (_, size) in part_by_colour.items() if size)
    attribution = Attribution(float(whole), parts)
    return charts.bar_segments(
        attribution, lambda colour: (part_by_colour[colour][0], ""), lambda size, _: wording.bytes_text(size)
    )


def _pool_parts(dump: Dump) -> tuple[list[charts.Stretch], list[tuple[str, str]]]:
    """The pool as one bar, and the colour and the words of each part; nothing where the log does not say enough."""
    if not dump.in_use_bytes or dump.free_bytes is None:
        return [], []
    largest = min(dump.largest_free_bytes or 0, dump.free_bytes)
    part_by_colour = {
        "device": ("in use", dump.in_use_bytes),
        "input": ("largest free piece", largest),
        "unattributed": ("other free pieces", dump.free_bytes - largest),
    }
    words = [(colour, f"{name} {wording.bytes_text(size)}") for colour, (name, size) in part_by_colour.items() if size]
    return _size_segments(part_by_colour, dump.in_use_bytes + dump.free_bytes), words


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
