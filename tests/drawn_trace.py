"""Traces drawn as text, one character per millisecond, for the examples of causes.

    step     1111111111 2222222222
    input    iiii...... iiii......
    device   ....kkkkkk ....kkkkkk
    @fact usable_cores=4 devices=[{"kind":"GPU"}]
    @pipeline Slices > Map ms=4 elements=32 parallelism=1 line=12 > Batch ms=0.1
    @event trace name=train_step start=12 end=15 data={"nth":3}
    @span callback Checkpoint.on_epoch_end start=3 end=5 value=1

A row that begins with ``&`` continues the ``@`` row above it.

Rows are categories of the main thread. Blanks separate steps, ``.`` means "not here". If no row has
a mark in a step, the moment is ``unattributed``. The drawing is repeated until there are
at least :data:`STEPS` steps, so that a short drawing is a steady run; ``@repeat 400`` sets that number.
``@more python=0.02`` makes each step by so many ms of that category longer than the one before it,
``@more python=5 from=200`` each step from the 200th on by 5 ms, ``@more python=50 every=40`` each fortieth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from slowtrain.columns.device import Device, DirectionCopies, Kernels, Line, PageableCopies, Producer
from slowtrain.columns.input_pipeline import Node, Pipeline, WrittenDataset
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.columns.steps import Steps
from slowtrain.model import Attribution, Category, Part, Place, Signal
from slowtrain.trace import Trace

MIN_DRAWN_STEPS = 40
DRAWN_FILE = "train.py"


def parse_drawing(drawing: str) -> Trace:
    """Return the trace that ``drawing`` shows. All signals count as measured except those in ``@missing a b``."""
    rows, notes = _drawing_rows(drawing)
    step_row = rows.pop("step", "")
    bounds = [(m.start(), m.end()) for m in re.finditer(r"([^.\s])\1*", step_row)]
    columns = {c: _category_column(rows.get(str(c), ""), bounds) for c in Category}
    length = np.array([b - a for a, b in bounds], dtype=float)
    known = sum(columns.values(), np.zeros(len(bounds)))
    columns[Category.UNATTRIBUTED] += np.maximum(length - known, 0.0)
    repeat = max(1, -(-MIN_DRAWN_STEPS // len(bounds))) if bounds and "@once" not in notes else 1
    repeat = max([repeat, *(-(-int(n.split()[1]) // len(bounds)) for n in notes if bounds and n[:8] == "@repeat ")])
    columns = {c: np.tile(col, repeat) for c, col in columns.items()}
    settings = _Settings(notes, repeat * len(length))
    length = np.tile(length, repeat) + settings.lengthened(columns)
    return Trace(
        signals=frozenset(set(Signal) - {Signal(s) for s in settings.missing}),
        steps=settings.steps(length),
        names=tuple(settings.names),
        lanes=settings.lanes(),
        events=tuple(settings.events),
        facts=settings.facts,
        categories=columns,
        run=settings.run(float(length.sum())),
        pipelines=settings.pipelines,
        kernels=settings.kernels,
        producers=tuple(settings.producers),
        loop_lines=tuple(settings.loop_lines),
        stacks=tuple(settings.stacks),
        samples=settings.samples,
        device=settings.device,
    )


def _drawing_rows(drawing: str) -> tuple[dict[str, str], list[str]]:
    rows: dict[str, str] = {}
    notes = []
    for row in filter(None, map(str.strip, drawing.splitlines())):
        if row.startswith("@"):
            notes.append(row)
        elif row.startswith("&") and notes:  # continuation of a long row
            notes[-1] += " " + row[1:].strip()
        elif row.startswith((">", "detail=")) and notes:  # a pipeline continues in the next row
            notes[-1] += " " + row
        else:
            lane, _, marks = row.partition(" ")
            rows[lane] = rows.get(lane, "") + marks.strip()
    return rows, notes


def _category_column(marks: str, bounds: list[tuple[int, int]]) -> Any:
    return np.array([sum(c not in ". " for c in marks[a:b]) for a, b in bounds], dtype=float)


def _setting_fields(text: str) -> Iterator[tuple[str, Any]]:
    """Parse ``a=1 b={"x": 2} c=text``. JSON values may contain blanks inside brackets."""
    for match in re.finditer(r"(\w+)=((?:\{.*?\}(?=\s|$))|(?:\[.*?\](?=\s|$))|\S+)", text):
        try:
            yield match[1], json.loads(match[2])
        except ValueError:
            yield match[1], match[2]


class _Settings:
    """The settings of the ``@`` rows."""

    def __init__(self, notes: list[str], steps: int) -> None:
        self.facts: dict[str, Any] = {"usable_cores": 8.0}
        self.missing: list[str] = []
        self.events: list[Event] = []
        self.names: list[Name] = []
        self.spans: list[tuple[str, float, float, int, int]] = []
        self.pipelines: tuple[Pipeline, ...] = ()
        self.kernels: Kernels | None = None
        self.device: Device | None = None
        self.producers: list[Producer] = []
        self.loop_lines: list[Line] = []
        self.stacks: list[Line] = []
        self.samples: dict[str, Any] = {}
        self.phases: dict[str, float] = {}
        self.step: dict[str, Any] = {}
        self.count = steps
        self.more: list[dict[str, Any]] = []
        for note in notes:
            word, _, rest = note[1:].partition(" ")
            getattr(self, f"_{word}")(rest.strip())

    def _once(self, _rest: str) -> None:
        """The drawing is the whole run."""

    def _repeat(self, _rest: str) -> None:
        """The minimum number of steps."""

    def _more(self, rest: str) -> None:
        self.more.append(dict(_setting_fields(rest)))

    def lengthened(self, columns: dict[Category, Any]) -> Any:
        """What ``@more`` rows add to each step; added to the columns, too."""
        added, number = np.zeros(self.count), np.arange(self.count)
        for row in self.more:
            given = {k: v for k, v in row.items() if k not in ("from", "every")}
            for name, ms in given.items():
                if "every" in row:
                    ms_now = float(ms) * (number % int(row["every"]) == int(row["every"]) - 1)
                else:
                    ms_now = float(ms) * (number >= int(row["from"]) if "from" in row else number)
                columns[Category(name)] = columns[Category(name)] + ms_now
                added = added + ms_now
        return added

    def _missing(self, rest: str) -> None:
        self.missing += rest.split()

    def _fact(self, rest: str) -> None:
        self.facts.update(_setting_fields(rest))

    def _steps(self, rest: str) -> None:
        """``@steps source=fit size=32 line=7 training=true warmup=2 start=2000 block=2 pause=30``: the latter in ms."""
        self.step.update(_setting_fields(rest))

    def _phase(self, rest: str) -> None:
        """``@phase validation=300 import=2000``: ms of the run besides the steps."""
        self.phases.update(dict(_setting_fields(rest)))

    def _sample(self, rest: str) -> None:
        """``@sample iowait_share=0.4 read_bytes=+1e6``: in every machine sample; what rises by so much in a second."""
        for key, value in _setting_fields(rest):
            rises = str(value).startswith("+")
            self.samples[key] = np.linspace(0, float(value), 20) if rises else np.full(20, float(value))
        self.samples["time_ms"] = np.linspace(0, 1000, 20)

    def _kernels(self, rest: str) -> None:
        """``@kernels busy=3 ms=4 count=200 wait=0 eager_ops=0 eager_ms=0 types={"MatMul":[3,10]} input={…}``"""
        given = dict(_setting_fields(rest))
        table, names, made = (
            {k: (float(v[0]), float(v[1])) for k, v in given.get(key, {}).items()} for key in ("types", "ops", "input")
        )
        busy = float(given.get("busy", 0))
        self.kernels = Kernels(
            20, float(given.get("step", busy)), busy, float(given.get("ms", busy)), float(given.get("count", 0)),
            float(given.get("wait", 0)), table, names,
            float(given.get("eager_ops", 0)), float(given.get("eager_ms", 0)), float(given.get("function", 0)),
            by_input=made,
        )  # fmt: skip

    def _device(self, rest: str) -> None:
        """``@device busy=8 kernels=300 median_us=5 by={"sgemm":[4,10]} ops={…} copies={"h2d":[10,4e6,2,2]}
        idle={"dispatch":3} precision={"float32":4} matrix={"float32":3} tensor=0 delay=20 queued=0.1 kind=GPU
        facts={…}``: in ms a step; copies are count, bytes, ms, exposed ms, and of those
        from pageable memory, where that is known, bytes, ms, exposed ms.
        """
        given = dict(_setting_fields(rest))

        def table(key: str) -> dict[str, tuple[float, float]]:
            return {k: (float(v[0]), float(v[1])) for k, v in given.get(key, {}).items()}

        def figures(key: str) -> dict[str, float]:
            return {k: float(v) for k, v in given.get(key, {}).items()}

        copies = {k: _parse_copies(list(map(float, v))) for k, v in given.get("copies", {}).items()}
        self.device = Device(
            str(given.get("name", "/device:GPU:0")), str(given.get("kind", "GPU")), given.get("facts", {}), 20,
            float(given.get("step", 0)), float(given.get("busy", 0)), float(given.get("ms", given.get("busy", 0))),
            float(given.get("kernels", 0)), float(given.get("median_us", 0)), table("by"), table("ops"), copies,
            figures("idle"), (), figures("precision"), figures("matrix"), float(given.get("tensor", 0)),
            given.get("delay"), given.get("queued"),
        )  # fmt: skip

    def _event(self, rest: str) -> None:
        """``@event LANE name=… start=… end=… data={…}``; ``times=5`` repeats it over the run."""
        lane, _, more = rest.partition(" ")
        given = dict(_setting_fields(more))
        start, end = float(given.get("start", 0)), float(given.get("end", given.get("start", 0)))
        for i in range(int(given.get("times", 1))):
            shift = i * float(given.get("every", 0))
            data = given.get("data") or {}
            self.events.append(Event(lane, str(given.get("name", lane)), start + shift, end + shift, data))

    def _span(self, rest: str) -> None:
        """``@span LANE name start=… end=… line=… value=… times=… every=…``"""
        lane, name, more = [*rest.split(" ", 2), "", ""][:3]
        given = dict(_setting_fields(more))
        detail = dict(given.get("detail") or {})
        if "line" in given:
            detail["site"] = (DRAWN_FILE, int(given["line"]))
        self.names.append(Name(lane, name, detail))
        for i in range(int(given.get("times", 1))):
            shift = i * float(given.get("every", 0))
            start, end = float(given.get("start", 0)) + shift, float(given.get("end", 0)) + shift
            self.spans.append((lane, start, end, len(self.names) - 1, int(given.get("value", 0))))

    def _grow(self, rest: str) -> None:
        """``@grow LANE name from=1e9 by=1e6 every=40 until=1500``: it grows, up to a moment."""
        lane, name, more = [*rest.split(" ", 2), "", ""][:3]
        given = dict(_setting_fields(more))
        self.names.append(Name(lane, name, dict(given.get("detail") or {})))
        every, value = float(given.get("every", 1)), float(given.get("from", 0))
        for i in range(int(float(given.get("last", 4000)) / every)):
            if i * every > float(given.get("until", np.inf)):
                value -= float(given["by"])
            self.spans.append((lane, i * every, i * every, len(self.names) - 1, int(value)))
            value += float(given["by"])

    def _line(self, rest: str) -> None:
        """``@line 41 ms=3 share=0.8 visits=1`` of the loop's own lines."""
        self.loop_lines.append(_parse_line(rest))

    def _stack(self, rest: str) -> None:
        """``@stack 41 ms=3000 share=0.8``: the main thread's samples over the run."""
        self.stacks.append(_parse_line(rest))

    def _producer(self, rest: str) -> None:
        """``@producer generator ms=4 calls=32 line=9 hot=11 share=0.9 visits=200``"""
        name, _, more = rest.partition(" ")
        given = dict(_setting_fields(more))
        lines = (
            (
                Line(
                    Place(DRAWN_FILE, int(given["hot"])),
                    1.0,
                    float(given.get("visits", 1)),
                    float(given.get("share", 1)),
                ),
            )
            if "hot" in given
            else ()
        )
        place = Place(DRAWN_FILE, int(given["line"])) if "line" in given else None
        self.producers.append(
            Producer("py_function", name, place, float(given.get("ms", 0)), float(given.get("calls", 1)), lines)
        )

    def _pipeline(self, rest: str) -> None:
        """Nodes from source to consumer: ``Slices > Map ms=4 elements=32 parallelism=1 line=12 detail={…}``;
        ``epochs=5 > Slices > …`` was run that often, of ``epochs=1 times=5 > …`` there are several.
        """
        nodes, plan = [], []
        stages, epochs, alike = rest.split(" > "), 1, 1
        if stages[0].strip().startswith("epochs="):
            passes, _, times = stages.pop(0).strip().removeprefix("epochs=").partition(" times=")
            epochs, alike = int(passes), int(times or 1)
        for i, text in enumerate(stages):
            name, _, more = text.strip().partition(" ")
            given = dict(_setting_fields(more))
            place = Place(DRAWN_FILE, int(given["line"])) if "line" in given else None
            inputs = (i - 1,) if i else ()
            plan.append(WrittenDataset(given.get("op", f"{name}Dataset"), inputs, place, given.get("detail") or {}))
            width = given.get("parallelism")
            nodes.append(
                Node(
                    i, name, inputs, float(given.get("ms", 0)), float(given.get("elements", 1)),
                    float(width) if width is not None else None, bool(given.get("tunable", False)),
                    given.get("buffer"), float(given.get("buffered_bytes", 0)), float(given.get("bytes", 0)), plan[-1],
                )
            )  # fmt: skip
        self.pipelines = (Pipeline(tuple(plan), tuple(nodes), self.count, None, None, True, epochs),) * alike

    def steps(self, length: Any) -> Steps:
        end = np.cumsum(length) + float(self.step.get("start", 0))
        n = len(length)
        steady = np.arange(n) >= min(int(self.step.get("warmup", 0)), n)
        size = np.full(n, int(self.step.get("size", 32)), dtype=np.int64)
        place = Place(DRAWN_FILE, int(self.step["line"])) if "line" in self.step else None
        block = np.arange(n) // int(self.step.get("block", max(n, 1)))
        end += block * float(self.step.get("pause", 0))
        source, training = str(self.step.get("source", "fit")), bool(self.step.get("training", True))
        return Steps(source, end - length, end, steady, np.zeros(n, dtype=bool), block, size, training, place)

    def lanes(self) -> dict[str, Spans]:
        found = {}
        for lane in {s[0] for s in self.spans}:
            mine = sorted((s for s in self.spans if s[0] == lane), key=lambda s: s[1])
            numbers = [np.array([s[i] for s in mine]) for i in (1, 2, 3, 4)]
            thread = np.ones(len(mine), dtype=np.int64)
            found[lane] = Spans(numbers[0], numbers[1], numbers[2], thread, numbers[3])
        return found

    def run(self, steps_ms: float) -> Attribution:
        total = steps_ms + sum(float(v) for v in self.phases.values())
        parts = {"steps": steps_ms, **{k: float(v) for k, v in self.phases.items()}}
        return Attribution(total, tuple(Part(k, v, v / total if total else 0.0) for k, v in parts.items()))


def _parse_line(rest: str) -> Line:
    number, _, more = rest.partition(" ")
    given = dict(_setting_fields(more))
    share, visits = float(given.get("share", 1)), float(given.get("visits", 1))
    return Line(Place(DRAWN_FILE, int(number)), float(given.get("ms", 0)), visits, share)


def _parse_copies(given: list[float]) -> DirectionCopies:
    count, size, ms, exposed, *pageable = given
    return DirectionCopies(count, size, ms, exposed, PageableCopies(*pageable) if pageable else None)
