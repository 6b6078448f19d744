"""Python of the script in each step that makes no input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.locations.own_python_lines import OwnPython, own_python
from slowtrain.script.locations.recorded_sources import is_interpreted
from slowtrain.source.cures.input import quicker
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

# Of the time that goes: array code takes a tenth of a loop in bytecode, or less. Of calls into libraries nobody can
# tell before it is tried how much has to stay, hence half of them with a range up to all.
LOOP_GOES, CALLS_GO = 0.9, 0.5
MOST_PLACES = 3
WAITS = 0.5  # of the Python: more of it without processor time is waiting, not computing


class PythonInStep(Cause[Evidence]):
    """The script's own Python, which makes no input, takes a large part of each step."""

    title = "Python of the script takes a large part of each step"
    needs = frozenset({Signal.STEPS, Signal.LINES})
    recorded = frozenset({Signal.FEEDS, Signal.PYTHON})  # a profile does not tell whose Python it is
    symptoms = frozenset({Category.PYTHON})
    words = step_loops.STEP_WORDS

    def find(self, trace: Trace) -> Evidence | None:
        found = own_python(trace)
        if found is None or found.ms < MIN_SYMPTOM_SHARE * trace.step_ms:
            return None
        first = found.lines[0]
        turns = f", {first.visits:,.0f} times" if found.traced and first.visits >= 2 else ""
        waits = _waiting(trace, found)
        idle = (
            f"; for {format_number(waits)} ms of it Python waits and computes nothing"
            if waits > WAITS * found.ms
            else ""
        )
        return Evidence(
            f"Python of the script takes {format_number(found.ms)} of each step's {format_number(trace.step_ms)} ms"
            f" ({found.ms / trace.step_ms:.0%}); line {first.place.line} takes {first.share:.0%} of that{turns}{idle}",
            {
                "python_ms": found.ms,
                "step_share": found.ms / trace.step_ms,
                "hottest_line_ms": first.ms,
                "hottest_line_visits": first.visits,
                "waiting_ms": waits,
            },
            tuple(line.place for line in found.lines[:MOST_PLACES]),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = own_python(trace)
        if found is None:
            return []
        goes = found.ms * (LOOP_GOES if _loops(found) else CALLS_GO)
        # The least is what the hottest line alone gives, with the same part of it left.
        least = found.lines[0].share
        computing = 1 - evidence.numbers["waiting_ms"] / found.ms
        return [Drop({Category.PYTHON: goes}, computing, spread=(least, found.ms / goes))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = own_python(trace)
        looping = found is not None and _loops(found)
        yield Prescription("advice", Effect.EQUIVALENT, _advice(trace, evidence.where, looping=looping))


def _loops(found: OwnPython) -> bool:
    """Whether the time goes to the interpreter: very many visits of quick lines."""
    return found.traced and is_interpreted(found.lines, found.ms)


def _waiting(trace: Trace, found: OwnPython) -> float:
    """Ms of this Python in which the main thread had no processor; 0 where that was not measured."""
    main = trace.facts.get("main_cpu_ms")
    return max(found.ms - float(main), 0.0) if main is not None else 0.0


def _advice(trace: Trace, where: Sequence[Place], *, looping: bool) -> str:
    function = quicker.hottest(trace, where)
    of = f" of {function}" if function else ""
    if looping:
        graph = "a jitted function" if trace.on_jax else "the tf.function"
        return f"write the loop{of} for whole arrays (NumPy), or in array operations inside {graph}"
    return f"move this work{of} out of the loop, into the data set's map, or do it every hundredth step"
