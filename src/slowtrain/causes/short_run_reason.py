"""The general reason for a run with too few steps to judge: the part of the run that no specific cause explains."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from msgspec import Struct

from slowtrain.causes.general_reason import GeneralFinding
from slowtrain.model import Effect, Evidence, Part, Phase, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import start_parts
from slowtrain.trace.signals.host.host_work import distinct_places, training_start_ms
from slowtrain.whatif import Skip

MIN_RUN_SHARE = 0.2  # of the run: a smaller part does not explain a slow run of a few steps
MIN_PART_MS = 1000.0  # an ordinary model is built, traced and started in about that time
EXPECTED_SHARE = 0.5  # of a phase of which only the length is known: the middle of what a cure may save
START_PHASES = (Phase.COMPILE, Phase.BUILD, Phase.WARMUP)
PHASE_WORDS: Mapping[str, str] = {
    Phase.LAUNCH: "starting Python",
    Phase.IMPORT: "imports",
    Phase.BUILD: "building the model",
    Phase.COMPILE: "tracing, compiling and first executions",
    Phase.WARMUP: "the first steps",
}


class LongPhase(Struct, frozen=True):
    """A phase outside the steps, the cause under which it is reported, and what to do."""

    cause: str
    title: str
    says: str
    advice: str


LONG_PHASES: Mapping[str, LongPhase] = {
    Phase.PREPARATION: LongPhase(
        "host/elementwise-preprocessing", "The script's own code outside training takes most of the run",
        "the script's own code outside training takes",
        "do this work once and save its result, or write it as array code",
    ),
    Phase.VALIDATION: LongPhase(
        "host/frequent-validation", "Validation takes most of the run", "validation takes",
        "validate every few epochs (validation_freq), or on fewer samples",
    ),
    Phase.PREDICT: LongPhase(
        "host/predict-in-loop", "predict() and evaluate() take most of the run", "predict() and evaluate() take",
        "call the model itself for a few samples, and predict() once for many",
    ),
    Phase.CALLBACK: LongPhase(
        "host/heavy-callback", "Callbacks take most of the run", "callbacks between the steps take",
        "do the work of callbacks every few epochs",
    ),
    Phase.CHECKPOINT: LongPhase(
        "host/frequent-validation", "Writing checkpoints takes most of the run", "writing checkpoints takes",
        "save less often, or weights only",
    ),
}  # fmt: skip


def find_short_run_reason(trace: Trace) -> GeneralFinding | None:
    """None if the phases of the run explain nothing, or if steps take most of what is not the usual start."""
    if trace.fact("profile") or not trace.run_ms or not start_parts.has_begun(trace):
        return None
    starting = sum(trace.run.ms(phase) for phase in START_PHASES)
    others = [p for p in trace.run.parts if p.name in LONG_PHASES]
    most = max(others, key=lambda p: p.ms, default=None)
    if most is not None and most.ms > starting:
        return _long_phase_reason(trace, most) if _is_large_part(trace, most.ms) else None
    return _start_up_reason(trace, starting) if _is_large_part(trace, starting) else None


def _is_large_part(trace: Trace, ms: float) -> bool:
    return ms >= MIN_PART_MS and ms >= MIN_RUN_SHARE * trace.run_ms and ms > trace.run.ms(Phase.STEPS)


def _start_up_reason(trace: Trace, starting_ms: float) -> GeneralFinding:
    whole = starting_ms + trace.run.ms(Phase.LAUNCH) + trace.run.ms(Phase.IMPORT)
    parts = sorted((p for p in trace.run.parts if p.name in PHASE_WORDS and p.share >= 0.01), key=lambda p: -p.ms)
    by_part = ", ".join(f"{PHASE_WORDS[p.name]} {format_number(p.ms / 1e3)} s" for p in parts)
    steps = trace.run.ms(Phase.STEPS)
    trained = f"; all steady steps take {format_number(steps / 1e3, 2)} s" if steps else ""
    of = f"start-up takes {format_number(whole / 1e3)} s, {whole / trace.run_ms:.0%} of the run"
    says = f"{of}: {by_part}{_tracing_words(trace)}{trained}"
    numbers = {"startup_ms": whole, "compiling_ms": starting_ms, "steps_ms": steps}
    beyond, (loops, iterations) = max(starting_ms - MIN_PART_MS, 0.0), _unrolled_training_loops(trace)
    if loops:
        says += f"; the loop in line {loops[0].line} unrolls {iterations:,} training steps into one graph"
        return GeneralFinding(
            "startup/slow-startup",
            "Whole training steps are unrolled into one graph",
            Evidence(says, numbers, loops),
            [Skip((1 - 1 / iterations) * beyond, spread=(0.5, 1.1))],
            (Prescription("edit", Effect.EQUIVALENT, "use a loop of the graph: for _ in tf.range(n)"),),
            "run",
        )
    advice = "train for longer, because start-up happens once; until then try changes on a smaller model or input"
    return GeneralFinding(
        "startup/slow-startup",
        "Start-up takes longer than the training",
        Evidence(says, numbers, _trace_place(trace)),
        [Skip(EXPECTED_SHARE * beyond, spread=(0.0, 1 / EXPECTED_SHARE))],
        (Prescription("advice", Effect.EXACT, advice),),
        "run",
    )


def _unrolled_training_loops(trace: Trace) -> tuple[tuple[Place, ...], int]:
    """Python loops in a graph that compute a gradient in each iteration, and how many iterations; 0 without any."""
    found = [
        (Place(text.file, loop.lineno), iteration_counts)
        for text in recorded_sources(trace)
        for loop, iteration_counts in graph_code.unrolled_graph_loops(text, chained=True)
        if "GradientTape" in ast.unparse(loop)
    ]
    return tuple(place for place, _ in found), max((iteration_counts for _, iteration_counts in found), default=0)


def _tracing_words(trace: Trace) -> str:
    """The part of compiling that is tracing of Python, if it was timed."""
    traced = sum(float(e.data.get("trace_ns") or 0) for e in trace.events_of("trace")) / 1e6
    ops = max((int((e.data.get("graph") or {}).get("ops") or 0) for e in trace.events_of("trace")), default=0)
    return f" ({format_number(traced / 1e3)} s of it tracing, {ops:,} operations)" if traced and ops else ""


def _trace_place(trace: Trace) -> tuple[Place, ...]:
    costly = sorted(trace.events_of("trace"), key=lambda e: -e.ms)
    return distinct_places(e.place for e in costly[:1])


def _long_phase_reason(trace: Trace, part: Part) -> GeneralFinding:
    about = LONG_PHASES[part.name]
    says = f"{about.says} {format_number(part.ms / 1e3)} s, {part.share:.0%} of the run"
    where = _main_thread_places(trace) if part.name == Phase.PREPARATION else _call_places(trace, part)
    hot = f"; most of it in line {where[0].line}" if where and part.name == Phase.PREPARATION else ""
    return GeneralFinding(
        about.cause,
        about.title,
        Evidence(says + hot, {"phase_ms": part.ms, "steps_ms": trace.run.ms(Phase.STEPS)}, where),
        [Skip(EXPECTED_SHARE * part.ms, spread=(0.0, 1 / EXPECTED_SHARE))],
        (Prescription("advice", Effect.EQUIVALENT, about.advice),),
        "run",
    )


def _main_thread_places(trace: Trace) -> tuple[Place, ...]:
    """The most frequent lines of the main thread before training, without imports."""
    begins, imports = training_start_ms(trace), trace.lane("import")
    ms: dict[Place, int] = {}
    samples = trace.lane("stack").starting_between(0.0, begins)
    for at, number in zip(samples.start_ms.tolist(), samples.name.tolist(), strict=True):
        place = trace.names[number].place
        importing = bool(((imports.start_ms <= at) & (at < imports.end_ms)).any())
        if place is not None and not importing:
            ms[place] = ms.get(place, 0) + 1
    return tuple(sorted(ms, key=lambda p: -ms[p]))[:3]


def _call_places(trace: Trace, part: Part) -> tuple[Place, ...]:
    wanted = ("evaluate",) if part.name == Phase.VALIDATION else ("predict", "evaluate")
    return distinct_places(e.place for e in trace.events_of("loop") if e.name in wanted)[:3]
