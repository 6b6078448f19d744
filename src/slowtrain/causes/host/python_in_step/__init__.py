"""Python of the script in each step that makes no input."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import MIN_SYMPTOM_SHARE, STEP_WORDS, Cause
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.own_python_lines import OwnPython, own_python
from slowtrain.script.locations.recorded_sources import is_interpreted
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

# Array code takes a tenth of the time of a loop in bytecode, or less. For calls into libraries the saving is not known
# before it is tried, hence half of them with a range up to all.
LOOP_SAVED_SHARE, CALLS_SAVED_SHARE = 0.9, 0.5
MAX_PLACES = 3
MIN_WAITING_SHARE = 0.5  # of the Python without processor time: above it the evidence says that it waits


class PythonInStepFinding(Struct, frozen=True):
    python: OwnPython
    waiting_ms: float  # without processor time; 0 if that was not measured

    @property
    def is_element_loop(self) -> bool:
        """Whether the interpreter takes the time: very many visits of quick lines."""
        return self.python.traced and is_interpreted(self.python.lines, self.python.ms)

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(line.place for line in self.python.lines[:MAX_PLACES])


class PythonInStep(Cause[PythonInStepFinding]):
    """The script's own Python, which makes no input, takes a large part of each step."""

    title = "Python of the script takes a large part of each step"
    needs = frozenset({Signal.STEPS, Signal.LINES})
    recorded = frozenset({Signal.FEEDS, Signal.PYTHON})  # a profile does not tell whose Python it is
    symptoms = frozenset({Category.PYTHON})
    words = STEP_WORDS

    def find(self, trace: Trace) -> PythonInStepFinding | None:
        python = own_python(trace)
        if python is None or python.ms < MIN_SYMPTOM_SHARE * trace.step_ms:
            return None
        main = trace.facts.get("main_cpu_ms")
        return PythonInStepFinding(python, max(python.ms - float(main), 0.0) if main is not None else 0.0)

    def evidence(self, trace: Trace, finding: PythonInStepFinding) -> Evidence:
        python, waiting_ms = finding.python, finding.waiting_ms
        first = python.lines[0]
        times = f", {first.visits:,.0f} times" if python.traced and first.visits >= 2 else ""
        waits = f"; for {format_number(waiting_ms)} ms of it Python waits and computes nothing"
        waits = waits if waiting_ms > MIN_WAITING_SHARE * python.ms else ""
        return Evidence(
            f"Python of the script takes {format_number(python.ms)} of each step's {format_number(trace.step_ms)} ms"
            f" ({python.ms / trace.step_ms:.0%}); line {first.place.line} takes {first.share:.0%} of "
            f"that{times}{waits}",
            {
                "python_ms": python.ms,
                "step_share": python.ms / trace.step_ms,
                "hottest_line_ms": first.ms,
                "hottest_line_visits": first.visits,
                "waiting_ms": waiting_ms,
            },
            finding.places,
        )

    def remedies(self, trace: Trace, finding: PythonInStepFinding) -> Sequence[Remedy]:
        python = finding.python
        saved_ms = python.ms * (LOOP_SAVED_SHARE if finding.is_element_loop else CALLS_SAVED_SHARE)
        # The low end is the saving in the hottest line alone, with the same share of it left.
        least = python.lines[0].share
        computing = 1 - finding.waiting_ms / python.ms
        return [Drop({Category.PYTHON: saved_ms}, computing, spread=(least, python.ms / saved_ms))]
