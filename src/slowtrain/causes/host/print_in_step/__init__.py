"""Lines of text that the script prints or logs in each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.own_python_lines import OwnPython, printing_python
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

LEFT_SHARE = 0.01  # of the printing, if it is done every hundredth step
MIN_GAIN, MAX_GAIN = 0.9, 1.0  # of the printing: done every tenth step, or not at all
MAX_PLACES = 3


class PrintInStep(Cause[OwnPython]):
    """The script prints or logs text in each step, and this takes a large part of the step."""

    title = "Printing text takes a large part of each step"
    needs = frozenset({Signal.STEPS, Signal.LINES})
    recorded = frozenset({Signal.FEEDS, Signal.PYTHON})  # a profile does not tell which Python prints
    symptoms = frozenset({Category.PYTHON})

    def find(self, trace: Trace) -> OwnPython | None:
        printing = printing_python(trace)
        return printing if printing is not None and printing.ms >= MIN_SYMPTOM_SHARE * trace.step_ms else None

    def evidence(self, trace: Trace, finding: OwnPython) -> Evidence:
        first = finding.lines[0]
        times = f", {first.visits:,.0f} times in each step" if finding.traced and first.visits >= 2 else ""
        return Evidence(
            f"printing text takes {format_number(finding.ms)} of each step's {format_number(trace.step_ms)} ms"
            f" ({finding.ms / trace.step_ms:.0%}), {first.share:.0%} of that in line {first.place.line}{times}",
            {"print_ms": finding.ms, "step_share": finding.ms / trace.step_ms, "line_visits_per_step": first.visits},
            tuple(line.place for line in finding.lines[:MAX_PLACES]),
        )

    def remedies(self, trace: Trace, finding: OwnPython) -> Sequence[Remedy]:
        spread = (MIN_GAIN / (1 - LEFT_SHARE), MAX_GAIN / (1 - LEFT_SHARE))
        return [Drop({Category.PYTHON: (1 - LEFT_SHARE) * finding.ms}, _computing_share(trace, finding.ms), spread)]

    def cures(self, trace: Trace, finding: OwnPython) -> Iterable[Prescription]:
        first = finding.lines[0]
        yield Prescription("edit", Effect.EXACT, f"run line {first.place.line} in every hundredth step only")
        if first.visits >= 2:
            yield Prescription("edit", Effect.EXACT, "join the texts of a step, and print them with one call")


def _computing_share(trace: Trace, ms: float) -> float:
    """The share of the printing in which the main thread had a processor; 1 if that was not measured."""
    main = trace.facts.get("main_cpu_ms")
    return min(float(main) / ms, 1.0) if main is not None else 1.0
