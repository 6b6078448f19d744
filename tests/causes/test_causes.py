"""Every cause of every family by its own drawn examples, one test for all of them."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path
from typing import Any

import pytest

from slowtrain.causes import SECTIONS, Cause, all_causes
from slowtrain.diagnose import MIN_SAVED_RUN_SHARE, MIN_SPEEDUP_BY_SCOPE, diagnose_trace
from slowtrain.model import CURE_KINDS, Effect, Signal

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CATALOGUE = Path(__file__).parents[3] / "shared" / "design" / "CAUSES.md"
WANTED_FAMILIES = ("input", "transfer", "host")
WANTED = (
    "startup/slow-startup",
    "compute/small-batch",
    "compute/full-precision",
    "compute/double-precision",
    "compute/unaligned-shapes",
    "compute/handwritten-op",
    "compute/unfused-elementwise",
    "compute/host-placed-ops",
    "compute/dense-embedding-update",
    "compute/unfused-rnn",
    "compute/compute-bound",
    "machine/gpu-unseen",
    "machine/library-mismatch",
    "machine/busy-gpu",
    "machine/throttled-clock",
    "machine/limited-host",
    "startup/jit-from-ptx",
    "numerics/nonfinite-loss",
)
CAUSES = all_causes()


def _cases(attribute: str) -> list[object]:
    drawings = [(c, i, d) for c in CAUSES for i, d in enumerate(getattr(c, attribute))]
    return [pytest.param(cause, drawing, id=f"{cause.id}-{i}") for cause, i, drawing in drawings]


def _wanted() -> list[str]:
    """Ids of the catalogue that are there by now."""
    found, family = [], ""
    for row in CATALOGUE.read_text().splitlines():
        if heading := re.match(r"## (\w+)", row):
            family = heading[1]
        elif (cell := re.match(r"\| `([a-z-]+)` \|", row)) and family in WANTED_FAMILIES:
            found.append(f"{family}/{cell[1]}")
    return [*found, *WANTED]


def test_the_catalogues_causes_exist() -> None:
    if not CATALOGUE.is_file():
        pytest.skip(f"{CATALOGUE} is not there")
    assert sorted(set(_wanted()) - {c.id for c in CAUSES}) == []


def test_ids_and_titles_are_unique() -> None:
    assert len({c.id for c in CAUSES}) == len(CAUSES)
    assert len({c.title for c in CAUSES}) == len(CAUSES)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.id)
def test_the_page_is_complete(cause: Cause[Any]) -> None:
    page = cause.page
    summary, *_ = page.splitlines()
    assert summary.endswith(".")
    assert len(summary) <= 120
    assert [line for line in page.splitlines() if line.startswith("## ")] == list(SECTIONS)
    parts = re.split("|".join(map(re.escape, SECTIONS)), page)[1:]
    assert all(len(part.strip()) >= 40 for part in parts), "a section of page.md has less than a sentence"


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.id)
def test_examples_of_both_kinds_are_given(cause: Cause[Any]) -> None:
    assert cause.fires
    assert cause.quiet
    assert cause.title == cause.title.strip(". ")


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.id)
def test_cures_are_in_the_class_or_in_fix(cause: Cause[Any]) -> None:
    has_fix = Path(inspect.getfile(type(cause))).with_name("fix.py").is_file()
    assert has_fix is (type(cause).cures is Cause.cures)
    assert not has_fix or callable(cause.folder_module("fix").find_cures)


@pytest.mark.parametrize(("cause", "drawing"), _cases("fires"))
def test_fires(cause: Cause[Any], drawing: str) -> None:
    trace = parse_drawing(drawing)
    found = diagnose_trace(trace, [cause])
    assert [d.cause for d in found.diagnoses] == [cause.id], "it has to be found in this trace of traces.txt"
    assert (found.healthy, found.unchecked) == ((), ())
    one = found.diagnoses[0]
    numbers = [one.saving.before_ms, one.saving.after_ms, one.saving.low, one.saving.high, one.run_share]
    assert all(math.isfinite(n) for n in [*numbers, *one.evidence.numbers.values()])
    assert one.evidence.says
    assert "\n" not in one.evidence.says
    assert one.saving.scope in ("step", "run")
    assert one.saving.low <= one.saving.high * (1 + 1e-9)
    if not cause.matters:
        assert one.saving.speedup >= MIN_SPEEDUP_BY_SCOPE[one.saving.scope]
        assert one.saving.low <= one.saving.speedup * (1 + 1e-9)
        assert one.saving.speedup <= one.saving.high * (1 + 1e-9)
        assert one.run_share >= (MIN_SAVED_RUN_SHARE if one.saving.scope == "run" else 0)
    for prescription in one.prescriptions:
        assert prescription.kind in CURE_KINDS
        assert isinstance(prescription.effect, Effect)
        assert prescription.says


@pytest.mark.parametrize(("cause", "drawing"), _cases("quiet"))
def test_quiet(cause: Cause[Any], drawing: str) -> None:
    found = diagnose_trace(parse_drawing(drawing), [cause])
    assert found.diagnoses == (), "it is not there in this trace of traces.txt"


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.id)
def test_unmeasured_is_unchecked(cause: Cause[Any]) -> None:
    """Not measured never reads as healthy: each needed signal alone turns the answer."""
    assert cause.needs
    assert all(isinstance(s, Signal) for s in cause.needs)
    for signal in cause.needs:
        found = diagnose_trace(parse_drawing(f"{cause.fires[0]}\n@missing {signal}"), [cause])
        assert (found.diagnoses, found.healthy) == ((), ())
        assert [u.cause for u in found.unchecked] == [cause.id]
        assert found.unchecked[0].missing == (str(signal),)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.id)
def test_an_empty_run_gives_no_finding(cause: Cause[Any]) -> None:
    """A run without a step, without anything: nothing fires, and nothing raises."""
    assert diagnose_trace(parse_drawing("@once"), [cause]).diagnoses == ()
