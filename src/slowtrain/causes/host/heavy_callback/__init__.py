"""A callback takes much of the training time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns import intervals
from slowtrain.columns.array_statistics import unique_values
from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_source, recorded_sources
from slowtrain.script.navigation import call_index
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import callbacks
from slowtrain.source.spots.host import callbacks as spotted
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.host.host_work import (
    is_outermost,
    spread_over_categories,
    starts_in_steady,
    starts_in_windows,
    training_start_ms,
    writes_log,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy, Skip

OUTER = ("CallbackList",)
LOGGED = 0.05  # of the time of the steps
RARELY = 0.01  # what is left of a batch's hook: as prescribed, every hundredth step still does the work
SELDOM = 0.05  # and of an epoch's, done every few epochs, or in a cheaper form
REPEATED = 8  # calls of one line, as in host/predict-in-loop


@dataclass(frozen=True)
class Hook:
    """A hook of a callback class: what it cost in steady steps, and between them."""

    name: Name
    calls: int
    ms: float
    step_ms: float  # in a mean steady step
    between_ms: float  # over the run, outside steady steps and windows


class HeavyCallback(Cause[Evidence]):
    """A callback (logging, histograms, checkpoints, predictions) takes much of the training time."""

    title = "a callback takes much of the training time"
    lines_shared_as = "save"
    needs = frozenset({Signal.CALLBACKS, Signal.STEPS})
    words = (
        *spotted.HOOKS,
        "save_freq",
        "update_freq",
        "write_images",
        "histogram",
        "savefig",
        "save",
        "save_weights",
        "svd",
    )

    def find(self, trace: Trace) -> Evidence | None:
        hooks = trace.once(_heavy)
        if not hooks:
            return _logged_each_step(trace) or _logged(trace)
        worst = hooks[0]
        total = sum(h.ms for h in hooks)
        each = worst.ms / worst.calls
        share = f", {format_number(worst.step_ms)} ms of each step of {format_number(trace.step_ms)} ms"
        share = share if worst.step_ms > 0.02 * trace.step_ms else ""
        return Evidence(
            f"{worst.name.text} takes {format_number(each)} ms a call, {worst.calls} calls, "
            f"{format_number(total / 1e3, 2)} s of the run{share}",
            {"call_ms": each, "calls": float(worst.calls), "total_ms": total, "step_ms": sum(h.step_ms for h in hooks)},
            _places(trace, worst.name),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        hooks = trace.once(_heavy)
        if not hooks and evidence.numbers["step_ms"]:
            taken = spread_over_categories(
                trace, (1 - RARELY) * evidence.numbers["step_ms"], (Category.PYTHON, Category.READBACK)
            )
            return [Drop(taken, spread=(0.7, 1.1))]
        if not hooks:
            return [Skip((1 - RARELY) * evidence.numbers["total_ms"], spread=(0.7, 1.1))]
        in_steps, between = sum(h.step_ms for h in hooks), sum(h.between_ms for h in hooks)
        spread = (0.7, 1.1)
        remedies: list[Remedy] = []
        if in_steps > 0:
            taken = spread_over_categories(trace, (1 - RARELY) * in_steps, (Category.CALLBACK, Category.READBACK))
            remedies.append(Drop(taken, spread=spread))
        if between > 0:
            remedies.append(Skip((1 - SELDOM) * between, spread=spread))
        return remedies

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        if not evidence.numbers["step_ms"]:
            return "run"
        between = sum(h.between_ms for h in trace.once(_heavy))
        in_steps = evidence.numbers["step_ms"] * trace.steps.count
        return "step" if in_steps >= between else "run"

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        hooks = trace.once(_heavy)
        if not hooks:
            yield Prescription("edit", Effect.EXACT, "write summaries every hundredth step, or only the cheap ones")
            return
        name = hooks[0].name.text
        kind, _, hook = name.partition(".")
        if kind == "TensorBoard":
            plain = "TensorBoard(histogram_freq=0, write_images=False, write_graph=False)"
            yield Prescription("edit", Effect.EXACT, plain, edits=self._edits(trace, evidence, kind, hook))
        elif kind in ("ModelCheckpoint", "BackupAndRestore"):
            rarer = f"let {kind} save less often (save_freq) or only weights (save_weights_only=True)"
            yield Prescription("edit", Effect.EXACT, rarer, edits=self._edits(trace, evidence, kind, hook))
        elif "batch" in hook:
            says = f"do the work of {name} once an epoch, or every hundredth batch"
            yield Prescription("edit", Effect.EXACT, says, edits=self._edits(trace, evidence, kind, hook))
        else:
            says = f"do the work of {name} every few epochs"
            yield Prescription("edit", Effect.EXACT, says, edits=self._edits(trace, evidence, kind, hook))

    def _edits(self, trace: Trace, evidence: Evidence, kind: str, hook: str) -> tuple[Edit, ...]:
        """What makes the callback do less: of Keras's own its arguments, of the user's a way out of its hook."""
        if kind in ("TensorBoard", *callbacks.KERAS_SAVERS):
            return measured.first(trace, evidence.where, lambda source, _: callbacks.lighter(source, kind))
        if kind == "LambdaCallback":
            return measured.first(trace, evidence.where, lambda source, _: callbacks.rarer_lambda(source))
        return measured.first(trace, evidence.where, lambda source, _: callbacks.rarer_hook(source, kind, hook))


def _heavy(trace: Trace) -> list[Hook]:
    """Hooks that matter, costliest first: each at least a fifth of the costliest."""
    spans = trace.lane("callback")
    if not len(spans) or not len(trace.steps):
        return []
    steady, windowed = starts_in_steady(trace, spans), starts_in_windows(trace, spans)
    outer = is_outermost(spans)
    late = spans.end_ms > training_start_ms(trace)
    count = int(trace.steps.steady.sum()) or 1
    hooks = []
    elsewhere = _elsewhere(trace, spans)
    for number in unique_values(spans.name[outer]):
        mine = (spans.name == number) & outer
        if float(elsewhere[mine].sum()) > 0.5 * float(spans.ms[mine].sum()):
            continue  # host/predict-in-loop, host/garbage-collection
        name = trace.names[int(number)]
        if name.text.partition(".")[0] in OUTER:
            continue
        in_steps = float(spans.ms[mine & steady].sum())
        between = float(spans.ms[mine & ~steady & ~windowed & late].sum())
        if in_steps + between > 0:
            hooks.append(Hook(name, int(mine.sum()), in_steps + between, in_steps / count, between))
    hooks.sort(key=lambda h: -h.ms)
    return [h for h in hooks if h.ms >= 0.2 * hooks[0].ms]


def _logged_each_step(trace: Trace) -> Evidence | None:
    """Summaries and pictures that the lines of a loop of the user's own write in every step."""
    lines = [line for line in trace.loop_lines if writes_log(trace, line.place)]
    spent = sum(line.ms for line in trace.loop_lines)
    if not lines or not spent:
        return None
    mine = trace.mean(Category.PYTHON) + trace.mean(Category.READBACK)
    ms = mine * sum(line.ms for line in lines) / spent
    if ms < LOGGED * trace.step_ms:
        return None
    calls = sum(line.visits for line in lines)
    lines.sort(key=lambda line: -line.ms)
    return Evidence(
        f"each step writes {format_number(calls)} summaries, which take {format_number(ms)} of its "
        f"{format_number(trace.step_ms)} ms",
        {"call_ms": ms / max(calls, 1.0), "calls": calls * trace.steps.count, "total_ms": ms * trace.steps.count,
         "step_ms": ms},
        tuple(line.place for line in lines[:3]),
    )  # fmt: skip


def _logged(trace: Trace) -> Evidence | None:
    """Summaries and pictures that a loop of the user's own writes between its steps, by samples of their lines."""
    found = [s for s in stalls.find_stalls(trace) if s.kind == "logging"]
    total = sum(s.total_ms for s in found)
    if not found or total < LOGGED * trace.steps.total_ms:
        return None
    count, most = sum(len(s.each) for s in found), found[0]
    often = f" every {most.period:.0f} steps" if most.period else ""
    return Evidence(
        f"the loop writes summaries {count} times{often}, {format_number(total / count)} ms each, where a step takes "
        f"{format_number(most.usual_ms)} ms: {format_number(total / 1e3, 2)} s of the run",
        {"call_ms": total / count, "calls": float(count), "total_ms": total, "step_ms": 0.0},
        most.where,
    )


def _elsewhere(trace: Trace, spans: Spans) -> Floats:
    """Ms of each span in what another cause tells of.

    That is `predict` or `evaluate` that a line of the user's calls again and again, and collections of garbage.
    """
    calls: dict[object, list[Event]] = {}
    for event in trace.events_of("loop"):
        if event.data.get("nested") and event.place is not None:
            calls.setdefault(event.place, []).append(event)
    again = [e for several in calls.values() if len(several) >= REPEATED for e in several]
    pauses = trace.lane("gc")
    predicted = intervals.union(*(np.array([getattr(e, side) for e in again]) for side in ("start_ms", "end_ms")))
    collected = intervals.union(pauses.start_ms, pauses.end_ms)
    return np.maximum(*(intervals.covered_length(one, spans.start_ms, spans.end_ms) for one in (predicted, collected)))


def _places(trace: Trace, name: Name) -> tuple[Place, ...]:
    """The hook's own line where it is the user's, its hot lines from samples, and the `fit` that was given it."""
    file, line = name.detail.get("file"), name.detail.get("line")
    calls = [e.place for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    fits = [p for p in calls if p is not None]
    if name.place is not None:
        return source_locations.merge_places(_handed(trace, name), (name.place, *fits[:1]))
    if not (file and line and name.detail.get("user")):
        return source_locations.merge_places(_made(trace, name), fits[-1:])
    own = Place(str(file), int(line))
    within = _called(trace, own, name)
    hot = [s.place for s in trace.stacks if s.place.file == file and _inside(trace, s.place, within)]
    return source_locations.merge_places(_handed(trace, name), (own, *hot[:2], *fits[-1:]))


def _made(trace: Trace, name: Name) -> tuple[Place, ...]:
    """Where the script makes a callback of Keras's own, if in one place."""
    kind = name.text.partition(".")[0]
    calls = [
        Place(text.file, c.lineno) for text in recorded_sources(trace) for c in call_index.index_of(text).called(kind)
    ]
    return tuple(calls) if len(calls) == 1 else ()


def _handed(trace: Trace, name: Name) -> tuple[Place, ...]:
    """Where a function is made a callback that Keras calls as often as this hook; one of a class is one by its name."""
    kind, _, hook = name.text.partition(".")
    if kind != "LambdaCallback":
        return ()
    given = [(text, k.value) for text in recorded_sources(trace) for c in call_index.index_of(text).called(kind)
             for k in c.keywords if k.arg == hook]  # fmt: skip
    return tuple(Place(text.file, value.lineno) for text, value in given) if len(given) == 1 else ()


def _called(trace: Trace, own: Place, name: Name) -> set[str]:
    """The names of the hook and of the functions of its file that it calls."""
    text = recorded_source(trace, own.file)
    hook = text.function_at(own.line) if text is not None else None
    called = text.called(hook) if text is not None and hook is not None else []
    return {name.text.rpartition(".")[2], *(str(getattr(one, "name", "")) for one in called)}


def _inside(trace: Trace, place: Place, functions: set[str]) -> bool:
    """Whether samples at ``place`` were taken in one of these functions."""
    return any(n.lane == "stack" and n.place == place and n.detail.get("within") in functions for n in trace.names)
