"""The general reason for a run of too few steps to judge: what it did instead, where no specific cause explains it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from slowtrain.model import Effect, Evidence, Part, Phase, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.source.spots import reached
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import start_parts
from slowtrain.trace.signals.host.host_work import distinct_places, training_start_ms
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Skip

LEAST_SHARE = 0.2  # of the run: less than that does not say what a run of a few steps is slow for
LEAST_MS = 1000.0  # an ordinary model is built, traced and started in about that
EXPECTED = 0.5  # of a phase of which only its length is known: the middle of all that a cure may give
STARTING = (Phase.COMPILE, Phase.BUILD, Phase.WARMUP)
SAID: Mapping[str, str] = {
    Phase.LAUNCH: "starting Python",
    Phase.IMPORT: "imports",
    Phase.BUILD: "building the model",
    Phase.COMPILE: "tracing, compiling and first executions",
    Phase.WARMUP: "the first steps",
}


@dataclass(frozen=True)
class Elsewhere:
    """A phase outside the steps, the cause under which it is told, and what to do."""

    cause: str
    title: str
    says: str
    advice: str


OTHERS: Mapping[str, Elsewhere] = {
    Phase.PREPARATION: Elsewhere(
        "host/elementwise-preprocessing", "the script's own code outside training takes most of the run",
        "the script's own code outside training takes",
        "do this work once and save its result, or write it as array code",
    ),
    Phase.VALIDATION: Elsewhere(
        "host/frequent-validation", "validation takes most of the run", "validation takes",
        "validate every few epochs (validation_freq), or on fewer samples",
    ),
    Phase.PREDICT: Elsewhere(
        "host/predict-in-loop", "predict and evaluate take most of the run", "predict() and evaluate() take",
        "call the model itself for a few samples, and predict() once for many",
    ),
    Phase.CALLBACK: Elsewhere(
        "host/heavy-callback", "callbacks take most of the run", "callbacks between the steps take",
        "do the work of callbacks every few epochs",
    ),
    Phase.CHECKPOINT: Elsewhere(
        "host/frequent-validation", "writing checkpoints takes most of the run", "writing checkpoints takes",
        "save less often, or weights only",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class StartReason:
    cause: str
    title: str
    evidence: Evidence
    remedies: Sequence[Remedy]
    prescriptions: tuple[Prescription, ...]


def reason(trace: Trace) -> StartReason | None:
    """None where the phases of the run say nothing, or steps take most of what is not the usual start."""
    if trace.fact("profile") or not trace.run_ms or not start_parts.has_begun(trace):
        return None
    starting = sum(trace.run.ms(phase) for phase in STARTING)
    others = [p for p in trace.run.parts if p.name in OTHERS]
    most = max(others, key=lambda p: p.ms, default=None)
    if most is not None and most.ms > starting:
        return _elsewhere(trace, most) if _tells(trace, most.ms) else None
    return _start(trace, starting) if _tells(trace, starting) else None


def _tells(trace: Trace, ms: float) -> bool:
    return ms >= LEAST_MS and ms >= LEAST_SHARE * trace.run_ms and ms > trace.run.ms(Phase.STEPS)


def _start(trace: Trace, starting_ms: float) -> StartReason:
    whole = starting_ms + trace.run.ms(Phase.LAUNCH) + trace.run.ms(Phase.IMPORT)
    parts = sorted((p for p in trace.run.parts if p.name in SAID and p.share >= 0.01), key=lambda p: -p.ms)
    by_part = ", ".join(f"{SAID[p.name]} {format_number(p.ms / 1e3)} s" for p in parts)
    steps = trace.run.ms(Phase.STEPS)
    trained = f"; all steady steps take {format_number(steps / 1e3, 2)} s" if steps else ""
    of = f"start-up takes {format_number(whole / 1e3)} s, {whole / trace.run_ms:.0%} of the run"
    says = f"{of}: {by_part}{_traced(trace)}{trained}"
    numbers = {"startup_ms": whole, "compiling_ms": starting_ms, "steps_ms": steps}
    beyond, (written, turns) = max(starting_ms - LEAST_MS, 0.0), written_out(trace)
    if written:
        says += f"; the loop in line {written[0].line} writes {turns:,} training steps out in one graph"
        return StartReason(
            "startup/slow-startup",
            "whole training steps are written out in one graph",
            Evidence(says, numbers, written),
            [Skip((1 - 1 / turns) * beyond, spread=(0.5, 1.1))],
            (Prescription("edit", Effect.EQUIVALENT, "let the graph loop itself: for _ in tf.range(n)"),),
        )
    advice = "let it train for longer: start-up is paid once; until then try changes on a smaller model or input"
    return StartReason(
        "startup/slow-startup",
        "start-up takes longer than the training",
        Evidence(says, numbers, _where(trace)),
        [Skip(EXPECTED * beyond, spread=(0.0, 1 / EXPECTED))],
        (Prescription("advice", Effect.EXACT, advice),),
    )


def written_out(trace: Trace) -> tuple[tuple[Place, ...], int]:
    """Loops of Python in a graph that take a gradient in each turn, and how many turns; 0 without any."""
    found = [
        (Place(text.file, loop.lineno), turns)
        for text in recorded_sources(trace)
        for loop, turns in reached.written_out(text, chained=True)
        if "GradientTape" in ast.unparse(loop)
    ]
    return tuple(place for place, _ in found), max((turns for _, turns in found), default=0)


def _traced(trace: Trace) -> str:
    """How much of compiling is the tracing of Python, where that was timed."""
    traced = sum(float(e.data.get("trace_ns") or 0) for e in trace.events_of("trace")) / 1e6
    ops = max((int((e.data.get("graph") or {}).get("ops") or 0) for e in trace.events_of("trace")), default=0)
    return f" ({format_number(traced / 1e3)} s of it tracing, {ops:,} operations)" if traced and ops else ""


def _where(trace: Trace) -> tuple[Place, ...]:
    costly = sorted(trace.events_of("trace"), key=lambda e: -e.ms)
    return distinct_places(e.place for e in costly[:1])


def _elsewhere(trace: Trace, part: Part) -> StartReason:
    about = OTHERS[part.name]
    says = f"{about.says} {format_number(part.ms / 1e3)} s, {part.share:.0%} of the run"
    where = _hot(trace) if part.name == Phase.PREPARATION else _loops(trace, part)
    hot = f"; most of it in line {where[0].line}" if where and part.name == Phase.PREPARATION else ""
    return StartReason(
        about.cause,
        about.title,
        Evidence(says + hot, {"phase_ms": part.ms, "steps_ms": trace.run.ms(Phase.STEPS)}, where),
        [Skip(EXPECTED * part.ms, spread=(0.0, 1 / EXPECTED))],
        (Prescription("advice", Effect.EQUIVALENT, about.advice),),
    )


def _hot(trace: Trace) -> tuple[Place, ...]:
    """Lines at which the main thread was met before training, imports aside."""
    begins, imports = training_start_ms(trace), trace.lane("import")
    ms: dict[Place, int] = {}
    samples = trace.lane("stack").between(0.0, begins)
    for at, number in zip(samples.start_ms.tolist(), samples.name.tolist(), strict=True):
        place = trace.names[number].place
        importing = bool(((imports.start_ms <= at) & (at < imports.end_ms)).any())
        if place is not None and not importing:
            ms[place] = ms.get(place, 0) + 1
    return tuple(sorted(ms, key=lambda p: -ms[p]))[:3]


def _loops(trace: Trace, part: Part) -> tuple[Place, ...]:
    wanted = ("evaluate",) if part.name == Phase.VALIDATION else ("predict", "evaluate")
    return distinct_places(e.place for e in trace.events_of("loop") if e.name in wanted)[:3]
