"""Words for a diagnosis in a headline, and for its gain, which may be nothing (:mod:`slowtrain.causes.general`)."""

from __future__ import annotations

from slowtrain.diagnose import WORTH, Findings
from slowtrain.figures import FORETOLD, times
from slowtrain.model import Diagnosis, Saving
from slowtrain.trace import Trace
from slowtrain.trace.steps import ELEMENTS

WIDE = 3.0  # ratio of the high to the low end; beyond it no single figure represents the range
CLAIMED = WORTH["run"]  # a smaller predicted speed-up is not claimed


def claims(diagnosis: Diagnosis) -> bool:
    """Whether a speed-up is claimed for the diagnosis's cure."""
    return diagnosis.saving.speedup >= WORTH[diagnosis.saving.scope]


def without_claim(findings: Findings) -> Diagnosis | None:
    """The first diagnosis that names where the time goes although its cure may give nothing."""
    return next((d for d in findings.diagnoses if not claims(d) and d.saving.high >= CLAIMED), None)


def said(diagnosis: Diagnosis) -> str:
    first = diagnosis.title[:1].lower() + diagnosis.title[1:]
    return f"{first}: curing {diagnosis.cause} would make the {diagnosis.saving.scope} {gain(diagnosis.saving)}"


def gain(saving: Saving) -> str:
    """The speed-up in words. A wide range is given with its ends; a range from zero with its upper end."""
    if saving.low <= 1.0 < saving.high:
        likeliest = f", {times(saving.speedup)} likeliest" if CLAIMED <= saving.speedup < FORETOLD else ""
        return f"at most {times(saving.high)} as fast{likeliest}"
    if saving.high <= WIDE * saving.low:
        return f"{times(saving.speedup)} as fast"
    likeliest = f", {times(saving.speedup)} likeliest" if saving.speedup < FORETOLD else ""
    return f"{times(saving.low)} to {times(saving.high)} as fast{likeliest}"


def untrained(trace: Trace) -> str:
    """Says that the steps are not training steps; empty if they are."""
    if trace.steps.source != ELEMENTS:
        return ""
    return "; nothing is trained here: a step is an element that the script takes from a data set"
