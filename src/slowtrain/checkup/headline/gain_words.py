"""Words for a diagnosis in a headline, and for its gain (it may be none: :mod:`slowtrain.causes.general_reason`)."""

from __future__ import annotations

from slowtrain.diagnose import MIN_SPEEDUP_BY_SCOPE, Findings
from slowtrain.model import Diagnosis, Saving
from slowtrain.number_text import MAX_PREDICTED_SPEEDUP, format_speedup
from slowtrain.trace import Trace
from slowtrain.trace.run_division.recording_steps import ELEMENTS_SOURCE

MIN_WIDE_RATIO = 3.0  # ratio of the high to the low end; beyond it no single figure represents the range
MIN_CLAIMED_SPEEDUP = MIN_SPEEDUP_BY_SCOPE["run"]  # a smaller predicted speed-up is not claimed


def claims_gain(diagnosis: Diagnosis) -> bool:
    """Whether a speed-up is claimed for the diagnosis's cure."""
    return diagnosis.saving.speedup >= MIN_SPEEDUP_BY_SCOPE[diagnosis.saving.scope]


def first_without_claim(findings: Findings) -> Diagnosis | None:
    """The first diagnosis that names where the time goes although its cure may give nothing."""
    return next((d for d in findings.diagnoses if not claims_gain(d) and d.saving.high >= MIN_CLAIMED_SPEEDUP), None)


def describe_diagnosis(diagnosis: Diagnosis) -> str:
    first = diagnosis.title[:1].lower() + diagnosis.title[1:]
    return f"{first}: curing {diagnosis.cause} would make the {diagnosis.saving.scope} {format_gain(diagnosis.saving)}"


def format_gain(saving: Saving) -> str:
    """The speed-up in words. A wide range is given with its ends; a range from zero with its upper end."""
    if saving.low <= 1.0 < saving.high:
        likeliest = (
            f", most likely {format_speedup(saving.speedup)}"
            if MIN_CLAIMED_SPEEDUP <= saving.speedup < MAX_PREDICTED_SPEEDUP
            else ""
        )
        return f"at most {format_speedup(saving.high)} as fast{likeliest}"
    if saving.high <= MIN_WIDE_RATIO * saving.low:
        return f"{format_speedup(saving.speedup)} as fast"
    likeliest = f", most likely {format_speedup(saving.speedup)}" if saving.speedup < MAX_PREDICTED_SPEEDUP else ""
    return f"{format_speedup(saving.low)} to {format_speedup(saving.high)} as fast{likeliest}"


def describe_untrained(trace: Trace) -> str:
    """Says that the steps are not training steps; empty if they are."""
    if trace.steps.source != ELEMENTS_SOURCE:
        return ""
    return "; the script trains nothing: a step is one element that it reads from a data set"
