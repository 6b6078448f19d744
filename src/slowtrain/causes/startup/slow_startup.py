from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Phase, Place, Prescription, Signal
from slowtrain.trace import Event, Trace
from slowtrain.whatif import Remedy, Skip

LEAST_MS = 2000.0  # of tracing and compiling: an ordinary model's first step takes a second or less
OVER_STEPS = 1.0  # times the steps of the whole run
XLA_SHARE = 0.9  # of a first call that is compiled by XLA: without it the graph starts within a second
GRAPH_BUILD_SHARE = 0.7  # of tracing that repeated layers in a Python loop cost, against one in a scanned or simpler form


class SlowStartup(Cause):
    """Tracing and compiling the model takes longer than all the steps of a short run.

    ## What it means
    Before the first step TensorFlow is imported, the model built, its train function traced, and
    the graph optimised and perhaps compiled by XLA. A long run does not notice; a run of a few
    dozen steps may spend nearly all its time there.

    ## How it is recognised
    The phases of the run are timed. Reported is tracing and compiling of at least two seconds that
    is longer than all steps of the run together. Importing TensorFlow takes the seconds that it
    takes and is no finding; tracing over and over is `retracing` or `compile-in-loop`.

    ## What to do
    Leave `jit_compile=True` out of short runs; keep the model's Python small (one layer called in a
    loop is traced each time, a `keras.layers.RNN` or `tf.scan` once); keep one process for several
    short experiments, so that start-up is paid once.

    ## When it is not worth it
    When this was only a trial of a run that will last for hours.
    """

    title = "starting takes longer than the training itself"
    needs = frozenset({Signal.PHASES, Signal.TRACES})
    scope = "run"

    def examine(self, trace: Trace) -> Evidence | None:
        first = _first(trace)
        if first is None:
            return None
        event, compiled = first
        steps = _steps_ms(trace)
        if event.ms < LEAST_MS or event.ms < OVER_STEPS * steps:
            return None
        traced = float(event.data.get("trace_ns") or 0) / 1e6
        how = "compiled by XLA" if compiled else "optimised and started"
        return Evidence(
            f"the first step took {event.ms / 1e3:.3g} s ({traced / 1e3:.2g} s to trace, the rest to be {how}), "
            f"all other steps of the run {steps / 1e3:.2g} s",
            {"first_step_ms": event.ms, "trace_ms": traced, "steps_ms": steps, "xla": float(compiled)},
            _places(trace, event, compiled),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        numbers = evidence.numbers
        beyond = max(numbers["first_step_ms"] - numbers["trace_ms"], 0.0)
        if numbers["xla"]:
            return [Skip(XLA_SHARE * beyond, spread=(0.7, 1.05))]
        # What a smaller graph would spare is a guess: between a third and nearly all of it.
        return [Skip(GRAPH_BUILD_SHARE * numbers["first_step_ms"], spread=(0.4, 1.3))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if evidence.numbers["xla"]:
            yield Prescription("edit", Effect.EQUIVALENT, "leave jit_compile=True out of runs this short")
        yield Prescription("advice", Effect.EXACT, "run several short experiments in one process, so that start-up is paid once")

    fires = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=9000
        @event compile name=Functional start=0 end=1 data={"jit_compile":true,"site":["train.py",28]}
        @event trace name=multi_step_on_iterator start=0 end=9000 data={"nth":1,"training":true,"trace_ns":2000000000,"site":["train.py",29]}
        @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",29]}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @event trace name=train_step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,"site":["train.py",29]}
        """,
    )
    quiet = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=4000 compile=600
        @event trace name=train_step start=0 end=600 data={"nth":1,"training":true,"trace_ns":500000000,"site":["train.py",29]}
        """,
        """
        step    11111111111111111111111111111111111111111111111111111111111111111111111111111111
        device  kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
        @phase import=1800 compile=2500
        @event trace name=train_step start=0 end=2500 data={"nth":1,"training":true,"trace_ns":500000000,"site":["train.py",29]}
        """,
    )


def _first(trace: Trace) -> tuple[Event, bool] | None:
    """The costliest first trace of a training function, and whether XLA compiles it."""
    firsts = [e for e in trace.events_of("trace") if e.data.get("training") and int(e.data.get("nth") or 1) == 1]
    if not firsts:
        return None
    event = max(firsts, key=lambda e: e.ms)
    loops = [e for e in trace.events_of("loop") if e.start_ms <= event.start_ms <= e.end_ms]
    compiled = any(e.data.get("jit_compile") is True for e in loops)
    return event, compiled


def _steps_ms(trace: Trace) -> float:
    """All steps but those that traced."""
    traced = sum(min(e.ms, trace.run_ms) for e in trace.events_of("trace"))
    named = {str(p): trace.run.ms(str(p)) for p in (Phase.STEPS, Phase.WARMUP)}
    windowed = float(trace.steps.ms[trace.steps.windowed].sum()) if len(trace.steps) else 0.0
    return max(sum(named.values()) + windowed - (traced if named[str(Phase.WARMUP)] >= traced else 0.0), 0.0)


def _places(trace: Trace, event: Event, compiled: bool) -> tuple[Place, ...]:
    places = [e.place for e in trace.events_of("compile") if compiled and e.data.get("jit_compile") is True]
    return tuple(dict.fromkeys(p for p in (*places, event.place) if p is not None))[:3]
