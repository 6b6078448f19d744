"""Source files as a recording keeps them, and steps whose input the user's own lines make."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from slowtrain.columns.device import Line
from slowtrain.errors import InputError
from slowtrain.model import Category, Edit, Place
from slowtrain.script.navigation import node_lookup, step_input
from slowtrain.script.navigation.step_input import InputLines
from slowtrain.script.text import edits, source_file, syntax_tree
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.source_lines import calls_at, loops_around

MIN_INPUT_MS = 0.1
MAX_INTERPRETED_LINE_US = 3.0  # a line without calls into libraries takes 0.05 to 1 µs
MIN_LINE_VISITS = 50.0
MAX_ANSWERS_PER_CALL = 3.0  # values read per call: an action, its probability, the state's value
CONVERSION_CALLS = frozenset(
    "astype asarray asanyarray ascontiguousarray array constant convert_to_tensor cast float32 float64 int32".split()
)


class HandmadeInput(Struct, frozen=True):
    """``ms`` per step of Python that makes input on the main thread; ``waiting``: the share of it without computing."""

    ms: float
    lines: tuple[Line, ...]
    feeding: InputLines
    waiting: float

    @property
    def where(self) -> tuple[Place, ...]:
        return tuple(line.place for line in self.lines[:4])

    @property
    def is_interpreted(self) -> bool:
        """Whether the interpreter takes the time: very many visits of fast lines."""
        return is_interpreted(self.lines, self.ms)


def is_interpreted(lines: tuple[Line, ...] | list[Line], ms: float) -> bool:
    """Whether ``ms``, spent in ``lines`` with their visits, is time of the interpreter and not of a library."""
    visits = sum(line.visits for line in lines)
    return visits >= MIN_LINE_VISITS and 1e3 * ms <= MAX_INTERPRETED_LINE_US * visits


def handmade_input(trace: Trace) -> HandmadeInput | None:
    """The input that the lines of the loop around the steps make; None if a data set makes it."""
    if not trace.loop_lines or trace.steps.source in ("fit", "evaluate", "predict"):
        return None
    if len(trace.lane("next")) >= 0.5 * len(trace.steps):
        return None  # a data set is iterated, so its pipeline makes the input
    for place in _step_places(trace):
        text = recorded_source(trace, place.file)
        found = step_input.input_lines(text, place.line) if text else None
        if found is not None:
            return _handmade_cost(trace, place, found)
    return None


def handmade_input_places(trace: Trace) -> set[Place]:
    """Lines that make the loop's batch, and the loops around them. They belong to the input causes."""
    hand = handmade_input(trace)
    lines = {line.place for line in hand.lines} if hand is not None else set()
    texts = {file: recorded_source(trace, file) for file in {p.file for p in lines}}
    around = {
        Place(p.file, getattr(turn, "lineno", 0))
        for p in lines
        if (text := texts[p.file]) is not None
        for turn in loops_around(text.tree, p.line)
    }
    return lines | around


def only_converts(trace: Trace, hand: HandmadeInput) -> bool:
    """Whether most of the time goes to lines that only convert arrays to another type or class."""
    spent = sum(line.ms for line in hand.lines)
    converting = sum(line.ms for line in hand.lines if _line_converts(trace, line, hand.feeding))
    return spent > 0 and converting > 0.5 * spent


def _line_converts(trace: Trace, line: Line, found: InputLines) -> bool:
    text, at = recorded_source(trace, line.place.file), line.place.line
    calls = calls_at(text.tree, at) if text is not None else []
    if at in found.mixed:  # without the step's call, and the call that keeps its loss, which contain them
        calls = [one for one in calls if not any(n is not one and n in calls for n in syntax_tree.walk(one))]
    return bool(calls) and {node_lookup.called_name(call) for call in calls} <= CONVERSION_CALLS


def input_follows_model(trace: Trace) -> bool:
    """Whether the lines that make a step's input call the model and read its result, so it cannot be made ahead."""
    return all(_calls_for_input(trace))


def model_answer_places(trace: Trace) -> set[Place]:
    """Lines that read results of the model of which the step's input is made, one or a few per call."""
    asked, read = _calls_for_input(trace)
    calls = host_work.spans_per_step(trace, "function", asked)
    return {p for p in read if host_work.spans_per_step(trace, "readback", [p]) <= MAX_ANSWERS_PER_CALL * calls}


def _calls_for_input(trace: Trace) -> tuple[list[Place], list[Place]]:
    """The lines that make a step's input and call the framework, and those that read values back."""
    step = host_work.step_line(trace)
    text = recorded_source(trace, step.file) if step is not None else None
    found = step_input.input_lines(text, step.line) if text is not None and step is not None else None
    if found is None or step is None:
        return [], []
    asked, read = (
        [p for p in host_work.ms_by_line(trace, lane) if p.file == step.file and p.line in found.lines]
        for lane in ("function", "readback")
    )
    return asked, read


def divide_loop_lines(trace: Trace) -> host_work.LoopLines:
    """The loop's lines before and after the step; a function's lines are on the side on which it is called."""
    found, step = host_work.divide_loop(trace), host_work.step_line(trace)
    text = recorded_source(trace, step.file) if step is not None else None
    if step is None or text is None:
        return found
    ahead, behind = step_input.lines_beside_step(text, step.line)

    def is_behind(line: Line) -> bool:
        own = line.place.file == step.file
        return line in found.after if not own or line.place.line not in ahead | behind else line.place.line in behind

    every = (*found.before, *found.after)
    before, after = (tuple(line for line in every if is_behind(line) is side) for side in (False, True))
    return host_work.LoopLines(before, after, found.outside_ms)


def _step_places(trace: Trace) -> list[Place]:
    """Lines that take steps, the most frequent first: a step may be called once before the loop."""
    counts: dict[Place, int] = {}
    for lane in ("on_batch", "function", "gradient"):
        spans = trace.lane(lane)
        for number, count in zip(*np.unique(spans.name, return_counts=True), strict=True):
            place = trace.names[int(number)].place
            if place is not None:
                counts[place] = counts.get(place, 0) + int(count)
    if trace.steps.place is not None:
        counts.setdefault(trace.steps.place, 0)
    return sorted(counts, key=lambda place: -counts[place])


def _handmade_cost(trace: Trace, place: Place, found: InputLines) -> HandmadeInput | None:
    own = [line for line in trace.loop_lines if line.place.file == place.file and line.place.line in found.lines]
    mixed = [line for line in trace.loop_lines if line.place.file == place.file and line.place.line in found.mixed]
    python = trace.mean(Category.PYTHON)
    # Line tracing slows the steps, so the lines' shares are used, not their times.
    scale = min(trace.step_ms / max(sum(line.ms for line in trace.loop_lines), 1e-9), 1.0)
    # A line that also takes the step counts with its time beyond the framework's.
    beyond = max(scale * sum(line.ms for line in mixed) - (trace.step_ms - python), 0.0)
    ms = min(python, scale * sum(line.ms for line in own) + beyond)
    if ms < MIN_INPUT_MS:
        return None
    chosen = sorted([*own, *(mixed if beyond > 0.2 * ms else [])], key=lambda line: -line.ms)
    cpu, main = trace.facts.get("cpu_ms_per_step"), trace.facts.get("main_cpu_ms")
    idle = max(trace.step_ms - float(cpu), 0.0) if cpu else 0.0
    if main is not None:  # the lines cannot have computed longer than the main thread did
        idle = max(idle, ms - float(main))
    return HandmadeInput(ms, tuple(chosen), found, min(idle / ms, 1.0))


def recorded_source(trace: Trace, file: str) -> source_file.Source | None:
    """The source of ``file``: from the recording if it keeps it, else from disk."""
    text = trace.fact("sources", file)
    if trace.fact("profile") and text is None:
        return None  # a profile has file names without folders
    return source_file.parse_source(file, text) if isinstance(text, str) else source_file.read_source(file)


def recorded_sources(trace: Trace) -> tuple[source_file.Source, ...]:
    """The project's files that a recording knows: kept with it, or named by a loop, a compiled model, a step."""
    named = [e.place.file for lane in ("loop", "compile") for e in trace.events_of(lane) if e.place is not None]
    files = dict.fromkeys([*sorted(trace.fact("sources") or {}, key=len, reverse=True), *named])
    if trace.steps.place is not None:
        files.setdefault(trace.steps.place.file)
    found: dict[str, source_file.Source] = {}
    for file in files:
        text = recorded_source(trace, file)
        if text is not None:
            found.setdefault(text.text, text)  # a script may have two names
    return tuple(found.values())


def edit_project(trace: Trace, cure: Callable[[source_file.Source], Sequence[Edit]]) -> tuple[Edit, ...]:
    """The edits of a cure in all files of the project; none if one file would no longer parse."""
    done: list[Edit] = []
    for text in recorded_sources(trace):
        changed = cure(text)
        try:
            ast.parse(edits.edited_text(text, changed))
        except (SyntaxError, ValueError, InputError):
            return ()
        done += changed
    return tuple(done)
