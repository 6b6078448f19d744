"""Assembles the checkup: everything that reports render, from a trace and what the engine found in it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from slowtrain import __version__, sources
from slowtrain.diagnose import Findings
from slowtrain.model import (
    Attribution,
    Category,
    Checkup,
    Diagnosis,
    Overhead,
    Part,
    Place,
    StepSummary,
    Subject,
    Unchecked,
    VerdictKind,
    WindowCost,
)
from slowtrain.pictures import pictures
from slowtrain.trace import Trace

LEAST_STEPS = 8  # steady ones, for a step to be judged
DOMINATES = 0.15  # of the run, that one cure would save: then a run is judged however few its steps
UNKNOWN = 0.1  # of a step unattributed is worth a note
NEIGHBOURS = 50  # steady steps on each side of a window that it is compared with
SPAN_MS = 1.5e-3  # what the recorder adds to a call that it wraps (docs/overhead.md)
MOST_NOTES = 8

FAMILY = {
    "input": VerdictKind.INPUT,
    "transfer": VerdictKind.TRANSFER,
    "host": VerdictKind.HOST,
    "startup": VerdictKind.STARTUP,
    "compute": VerdictKind.COMPUTE,
    "memory": VerdictKind.MEMORY,
    "drift": VerdictKind.SLOWING,
}
# Causes whose verdict is not their family's.
OWN = {
    "host/launch-bound": VerdictKind.LAUNCH,
    "compute/small-batch": VerdictKind.LAUNCH,
    "host/elementwise-preprocessing": VerdictKind.STARTUP,
}
CATEGORY = {
    Category.INPUT: VerdictKind.INPUT,
    Category.FEED: VerdictKind.TRANSFER,
    Category.READBACK: VerdictKind.TRANSFER,
    Category.COMPILE: VerdictKind.HOST,
    Category.DISPATCH: VerdictKind.LAUNCH,
    Category.PYTHON: VerdictKind.HOST,
    Category.CALLBACK: VerdictKind.HOST,
    Category.GC: VerdictKind.HOST,
    Category.DEVICE: VerdictKind.COMPUTE,
}
SPENDS = {
    Category.INPUT: "waits {ms} for its batch",
    Category.FEED: "spends {ms} turning data into tensors",
    Category.READBACK: "spends {ms} reading values back",
    Category.COMPILE: "spends {ms} tracing and compiling",
    Category.DISPATCH: "spends {ms} starting ops",
    Category.PYTHON: "spends {ms} in the script's own Python",
    Category.CALLBACK: "spends {ms} in callbacks",
    Category.GC: "spends {ms} collecting garbage",
    Category.DEVICE: "computes for {ms}",
    Category.UNATTRIBUTED: "spends {ms} in ways that the recording cannot tell apart",
}


def checkup(trace: Trace, findings: Findings, *, folder: Path) -> Checkup:
    """The whole answer; ``folder`` is the recording's, as the user named it."""
    judged = _Judged.of(trace, findings)
    code = sources.Sources(trace.root)
    return Checkup(
        __version__,
        _subject(trace, folder),
        judged.verdict,
        judged.headline(),
        _steps(trace),
        _attribution(trace),
        trace.run,
        _overhead(trace),
        tuple(_shown(d, code) for d in judged.diagnoses),
        findings.healthy,
        judged.unchecked,
        tuple(_notes(trace, findings))[:MOST_NOTES],
        tuple(judged.next_steps(folder)),
        pictures(trace, lambda place: code.shown(place) if place else None),
    )


# -- the verdict


@dataclass(frozen=True)
class _Judged:
    trace: Trace
    verdict: VerdictKind
    diagnoses: tuple[Diagnosis, ...]
    unchecked: tuple[Unchecked, ...]

    @staticmethod
    def of(trace: Trace, findings: Findings) -> _Judged:
        counted = int(trace.steps.steady.sum())
        telling = [d for d in findings.diagnoses if d.run_share >= DOMINATES or d.saving.scope == "run"]
        if counted >= LEAST_STEPS or any(d.run_share >= DOMINATES for d in telling):
            return _Judged(trace, _kind(trace, findings.diagnoses), findings.diagnoses, findings.unchecked)
        failed = bool(_exit_code(trace)) and not len(trace.steps)
        # Too few steps to tell: what was said of a step is taken back, for a guess is worse than no answer.
        left = [Unchecked(d.cause, ("steps",)) for d in findings.diagnoses if d not in telling]
        unchecked = tuple(sorted((*findings.unchecked, *left), key=lambda u: u.cause))
        return _Judged(trace, VerdictKind.FAILED if failed else VerdictKind.INSUFFICIENT, tuple(telling), unchecked)

    def headline(self) -> str:
        trace, first = self.trace, _first(self.diagnoses)
        if self.verdict is VerdictKind.FAILED:
            return f"the script ended with exit code {_exit_code(trace)} before it took a training step."
        if self.verdict is VerdictKind.INSUFFICIENT:
            count = len(trace.steps)
            return f"{_count(count, 'step')} recorded: too few to judge a steady step." if count else "no training step was seen."
        if first is not None and first.saving.scope == "run":
            saved, run = _seconds(first.saving.ms), _seconds(trace.run_ms)
            return f"{_lower(first.title)}: curing it would save {saved} of the run's {run} ({first.saving.speedup:.2g}x)."
        said = f"each {_ms(trace.step_ms)} step {_spent(trace, first)}"
        if first is None:
            spoiled = self.diagnoses[0] if self.diagnoses and self.diagnoses[0].cause.startswith("numerics/") else None
            return f"{_lower(spoiled.title)}; {said}." if spoiled else f"healthy: {said}, and nothing was found to cure."
        return f"{said}; curing the first cause would give {_factor(first.saving.speedup)}."

    def next_steps(self, folder: Path) -> Iterator[str]:
        if self.verdict is VerdictKind.FAILED:
            yield "Mend the error that the script printed, then record it again with slowtrain run."
            return
        if self.verdict is VerdictKind.INSUFFICIENT:
            yield "Record a run of at least 50 training steps."
        for diagnosis in [d for d in self.diagnoses if d.prescriptions][:1]:
            place = diagnosis.evidence.where[0] if diagnosis.evidence.where else None
            where = f"{PurePath(place.file).name}:{place.line}: " if place else ""
            yield f"{where}{diagnosis.prescriptions[0].says}"
            yield f"slowtrain explain {diagnosis.cause}"
        if self.verdict is not VerdictKind.INSUFFICIENT:
            yield f"slowtrain report --html report.html {folder}"


def _first(diagnoses: Sequence[Diagnosis]) -> Diagnosis | None:
    """The first that has something to gain."""
    return next((d for d in diagnoses if d.saving.speedup > 1.0), None)


def _kind(trace: Trace, diagnoses: Sequence[Diagnosis]) -> VerdictKind:
    first = _first(diagnoses)
    if first is not None:
        found = OWN.get(first.cause) or FAMILY.get(first.cause.partition("/")[0])
        if found is not None:
            return found
    largest = _largest(trace)
    if largest is Category.DISPATCH and trace.eager:
        return VerdictKind.HOST
    return CATEGORY[largest] if largest is not None else VerdictKind.COMPUTE


def _largest(trace: Trace) -> Category | None:
    """The largest category that is known."""
    means = {c: trace.mean(c) for c in trace.categories if c in CATEGORY}
    return max(means, key=lambda c: means[c]) if any(means.values()) else None


def _spent(trace: Trace, first: Diagnosis | None) -> str:
    """What the step does most, or, with a cause, most of what belongs to the verdict."""
    kind = _kind(trace, [first] if first else [])
    means = {c: trace.mean(c) for c in trace.categories if c in SPENDS}
    fitting = {c: ms for c, ms in means.items() if CATEGORY.get(c) is kind and ms > 0}
    pool = fitting if fitting and max(fitting.values()) >= 0.2 * trace.step_ms else means
    if not pool:
        return "was timed"
    category = max(pool, key=lambda c: pool[c])
    return SPENDS[category].format(ms=_ms(pool[category]))


def _ms(ms: float) -> str:
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def _seconds(ms: float) -> str:
    return f"{ms / 1e3:.3g} s"


def _factor(speedup: float) -> str:
    return f"{speedup:.2f}x" if speedup < 1.95 else f"{speedup:.1f}x" if speedup < 9.95 else f"{speedup:.0f}x"


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


# -- figures


def _steps(trace: Trace) -> StepSummary:
    steps = trace.steps
    steady = np.flatnonzero(steps.steady)
    if not len(steady):
        return StepSummary(0, len(steps), None, None, None)
    ms, size = steps.steady_ms, steps.size[steps.steady] if len(steps.size) else np.zeros(len(steady))
    rate = float(size.sum() / ms.sum() * 1e3) if size.sum() and ms.sum() else None
    return StepSummary(len(steady), int(steady[0]), float(np.median(ms)), float(np.quantile(ms, 0.95)), rate)


def _attribution(trace: Trace) -> Attribution:
    total = trace.step_ms
    means = sorted(((str(c), trace.mean(c)) for c in trace.categories), key=lambda i: -i[1])
    return Attribution(total, tuple(Part(name, ms, ms / total) for name, ms in means if ms > 0)) if total else Attribution(0.0, ())


def _overhead(trace: Trace) -> Overhead:
    """The recorder's thread, and its wrappers at their measured price, over the run's wall time."""
    cost = trace.fact("recorder", default={})
    wall = float(cost.get("wall_s") or 0.0)
    spans = sum(len(s) for name, s in trace.lanes.items() if name != "stack")
    share = (float(cost.get("thread_cpu_s") or 0.0) + spans * SPAN_MS / 1e3) / wall if wall else None
    return Overhead(min(share, 1.0) if share is not None else None, tuple(_windows(trace)))


def _windows(trace: Trace) -> Iterator[WindowCost]:
    steps = trace.steps
    if not len(steps):
        return
    for event in trace.events_of("window"):
        inside = np.flatnonzero(steps.windowed & (steps.start_ms < event.end_ms) & (steps.end_ms > event.start_ms))
        # The last one holds the profiler's own stop.
        inside = inside[:-1] if len(inside) > 1 else inside
        if not len(inside):
            continue
        near = np.flatnonzero(steps.steady & ~steps.windowed)
        near = near[np.argsort(np.abs(near - inside.mean()))[: 2 * NEIGHBOURS]]
        usual = float(np.median(steps.ms[near])) if len(near) >= 3 else 0.0
        yield WindowCost(len(inside), float(np.median(steps.ms[inside])) / usual if usual else None)


# -- what was examined


def _exit_code(trace: Trace) -> int | None:
    code = trace.fact("launch", "exit_code")
    return int(code) if code is not None else None


def _subject(trace: Trace, folder: Path) -> Subject:
    argv = [str(a) for a in trace.fact("launch", "argv", default=())]
    command = argv[1:] if len(argv) > 1 else argv  # without the interpreter
    names = sources.Sources(trace.root)
    command = [names.relative(a) for a in command]
    framework: dict[str, str | None] = {
        "tensorflow": trace.facts.get("version.tensorflow"),
        "keras": trace.facts.get("version.keras"),
        "backend": trace.fact("keras", "backend"),
        "python": trace.fact("child", "python"),
    }
    return Subject("recording", str(folder), tuple(command), _exit_code(trace), {k: v for k, v in framework.items() if v}, _device(trace))


def _device(trace: Trace) -> Mapping[str, str | int | None]:
    devices: list[Mapping[str, Any]] = trace.fact("devices", default=[]) or []
    found = [d for d in devices if d.get("kind") != "CPU"]
    if found:
        cards = trace.fact("machine", "gpu", "devices", default=[]) or []
        name = next((str(c["name"]) for c in cards if c.get("name")), None)
        return {"kind": str(found[0].get("kind")), "name": name, "count": len(found)}
    cores = f"{trace.cores:.3g} of {trace.fact('machine', 'cpu', 'logical_cores', default='?')} processors"
    model = trace.fact("machine", "cpu", "model")
    return {"kind": "CPU", "name": f"{model}, {cores}" if model else cores, "count": 1}


def _shown(diagnosis: Diagnosis, code: sources.Sources) -> Diagnosis:
    where = tuple(code.shown(p) for p in diagnosis.evidence.where)
    return replace(diagnosis, evidence=replace(diagnosis.evidence, where=where))


# -- notes


def _notes(trace: Trace, findings: Findings) -> Iterator[str]:
    code = _exit_code(trace)
    if code is not None and code > 128 and code - 128 in {s.value for s in signal.Signals}:
        yield f"The script was ended by {signal.Signals(code - 128).name}; this is what was recorded until then."
    elif code:
        yield f"The script ended with exit code {code}; this is what was recorded until then."
    elif code is None:
        yield "Slowtrain was ended before the script was; this is what was recorded until then."
    if trace.facts.get("ended"):
        yield f"Recording stopped before the script did: {_line(trace.facts['ended'])}"
    if findings.together is not None and len([d for d in findings.diagnoses if d.saving.speedup > 1]) > 1:
        scope = "run" if findings.together.scope == "run" else "step"
        yield f"All cures together would give {_factor(findings.together.speedup)} of the {scope}."
    faults = trace.fact("faults", default=[]) or []
    for fault in faults[:2]:
        yield f"A part of the recorder failed and was switched off: {_line(fault)}"
    if len(faults) > 2:
        yield f"{_count(len(faults) - 2, 'more fault')} of the recorder stand in the recording."
    if len(trace.steps) and trace.kernels is None:
        profiled = any(e.name == "profile" for e in trace.events_of("window"))
        why = "the profiler's window could not be read" if profiled else "the run was too short for a profiler window"
        yield f"What ops took was not measured: {why}."
    if trace.share(Category.UNATTRIBUTED) > UNKNOWN:
        yield f"{trace.share(Category.UNATTRIBUTED):.0%} of a step could not be attributed."


def _line(text: object) -> str:
    """The first and the last line of a fault: where, and what."""
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return (f"{lines[0].partition(':')[0]}: {lines[-1]}" if len(lines) > 1 else "".join(lines))[:200]
