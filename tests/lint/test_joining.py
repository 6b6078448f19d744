"""Findings beside a recording: confirmed, harmless, not reached, or nobody can tell."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from slowtrain.columns.spans import Event
from slowtrain.lint import recording_match
from slowtrain.model import (
    Attribution,
    Checkup,
    Diagnosis,
    Evidence,
    Overhead,
    Part,
    Place,
    Saving,
    StepSummary,
    Subject,
    Unchecked,
    VerdictKind,
)
from slowtrain.model.inspections import LintFinding, RuntimeState
from slowtrain.trace import Trace

SCRIPT = """\
import tensorflow as tf
ds = tf.data.Dataset.range(9)
ds = (
    ds.map(load)
    .batch(8)
)
def other():
    return ds.map(load)
model.fit(ds)
"""
MAP = "input/sequential-map"


def finding(file: str, line: int, cause: str = MAP) -> LintFinding:
    return LintFinding(cause, "…", file, line, 1, line, 2, "…")


def checkup(
    *diagnoses: tuple[str, int, float],
    healthy: tuple[str, ...] = (),
    unchecked: tuple[str, ...] = (),
    where: bool = True,
) -> Checkup:
    """Diagnoses by cause, line of train.py, and saving in ms of a step of 10 ms, in a run of a second."""
    nothing = Attribution(10.0, ())
    return Checkup(
        "0",
        Subject("recording", "r"),
        VerdictKind.INPUT,
        "…",
        StepSummary(100, 0, 10.0, 10.0, None),
        nothing,
        Attribution(1000.0, (Part("steps", 1000.0, 1.0),)),
        Overhead(None),
        tuple(
            Diagnosis(
                cause,
                "…",
                Evidence("…", where=(Place("train.py", line),) if where else ()),
                Saving("step", 10.0, 10.0 - ms, 1.0, 9.0),
                ms / 10,
            )
            for cause, line, ms in diagnoses
        ),
        healthy,
        tuple(Unchecked(cause, ("steps",)) for cause in unchecked),
    )


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Of a run of train.py in which ``fit`` was seen at its line 9."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "never.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    fit = Event("loop", "fit", 0.0, 1.0, {"site": [str(tmp_path / "train.py"), 9]})
    return Trace(root=str(tmp_path), facts={"sources": {"train.py": SCRIPT}}, events=(fit,))


def runtimes(found: tuple[LintFinding, ...]) -> list[RuntimeState | None]:
    return [f.runtime for f in found]


def test_a_diagnosis_of_its_statement_confirms_it(trace: Trace) -> None:
    # The run names the line at which the statement begins, the finding that of the operation.
    found = recording_match.add_runtime_costs([finding("train.py", 4)], checkup((MAP, 3, 6.0)), trace)
    assert runtimes(found) == [RuntimeState("confirmed", 6.0, 600.0)]


def test_one_without_a_line_confirms_the_only_finding(trace: Trace) -> None:
    answer = checkup((MAP, 1, 6.0), where=False)
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 4)], answer, trace)) == [
        RuntimeState("confirmed", 6.0, 600.0)
    ]
    two = [finding("train.py", 2), finding("train.py", 4)]
    assert [r.state for r in runtimes(recording_match.add_runtime_costs(two, answer, trace)) if r] == [
        "harmless",
        "harmless",
    ]


def test_a_tensor_that_is_kept_fills_the_memory_of_the_device_that_computed_it(trace: Trace) -> None:
    kept, elsewhere = finding("train.py", 4, "memory/host-leak"), finding("train.py", 2, "memory/host-leak")
    answer = checkup(("memory/device-leak", 3, 0.0), healthy=("memory/host-leak",))
    found = {f.line: f.runtime for f in recording_match.add_runtime_costs([kept, elsewhere], answer, trace)}
    assert found == {4: RuntimeState("confirmed", 0.0), 2: RuntimeState("harmless")}
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 4)], answer, trace)) == [
        None
    ]  # another cause's


def test_a_line_that_saves_costs_what_frequent_checkpoints_cost(trace: Trace) -> None:
    saves = finding("train.py", 4, "host/heavy-callback")
    answer = checkup(("host/frequent-validation", 3, 2.0), healthy=("host/heavy-callback",))
    assert runtimes(recording_match.add_runtime_costs([saves], answer, trace)) == [
        RuntimeState("confirmed", 2.0, 200.0)
    ]


def test_what_was_judged_and_not_found_is_harmless(trace: Trace) -> None:
    assert runtimes(
        recording_match.add_runtime_costs(
            [finding("train.py", 4)], replace(checkup(healthy=(MAP,)), verdict=VerdictKind.COMPUTE), trace
        )
    ) == [RuntimeState("harmless")]


def test_a_file_that_was_never_run_was_not_reached(trace: Trace) -> None:
    found = recording_match.add_runtime_costs([finding("never.py", 4)], checkup((MAP, 4, 6.0)), trace)
    assert runtimes(found) == [RuntimeState("not reached")]


def test_of_a_wait_that_no_cause_explains_no_line_is_called_harmless(trace: Trace) -> None:
    """Steps wait for input, and no cause of it was found: that the map was judged does not clear it."""
    unexplained = checkup(healthy=(MAP,))
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 4)], unexplained, trace)) == [None]
    elsewhere = checkup(("host/heavy-callback", 9, 4.0), healthy=(MAP,))
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 4)], elsewhere, trace)) == [None]
    explained = checkup(("input/slow-storage", 2, 4.0), healthy=(MAP,))
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 4)], explained, trace)) == [
        RuntimeState("harmless")
    ]
    other = finding("train.py", 4, "host/eager-step")
    assert runtimes(recording_match.add_runtime_costs([other], checkup(healthy=(other.cause,)), trace)) == [
        RuntimeState("harmless")
    ]


def test_what_was_not_checked_is_not_harmless(trace: Trace) -> None:
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 4)], checkup(unchecked=(MAP,)), trace)) == [
        None
    ]


def test_a_function_that_nobody_mentions_was_not_reached(trace: Trace) -> None:
    found = recording_match.add_runtime_costs([finding("train.py", 8)], checkup(healthy=(MAP,)), trace)
    assert runtimes(found) == [RuntimeState("not reached")]


def test_a_module_of_the_project_that_was_imported_was_reached(trace: Trace) -> None:
    helper = Path(trace.root, "never.py")
    digest = hashlib.sha256(helper.read_bytes()).hexdigest()[:32]
    loaded = structs.replace(trace, facts={**trace.facts, "modules": {str(helper): digest}})
    answer = replace(checkup(healthy=(MAP,)), verdict=VerdictKind.COMPUTE)
    assert runtimes(recording_match.add_runtime_costs([finding("never.py", 4)], answer, loaded)) == [
        RuntimeState("harmless")
    ]
    assert list(recording_match.recorded_texts(loaded)) == [str(Path(trace.root, "train.py")), str(helper)]
    helper.write_text(SCRIPT + "x = 1\n")
    assert str(helper) not in recording_match.recorded_texts(loaded)
    assert recording_match.changed_files(["never.py", "train.py"], loaded) == ["never.py"]


def test_a_function_in_which_nothing_was_measured_may_not_have_run(trace: Trace) -> None:
    mentioned = SCRIPT + "other\n"
    Path("train.py").write_text(mentioned)
    trace = structs.replace(trace, facts={"sources": {"train.py": mentioned}})
    assert runtimes(recording_match.add_runtime_costs([finding("train.py", 8)], checkup(healthy=(MAP,)), trace)) == [
        None
    ]


def test_the_dearest_comes_first(trace: Trace) -> None:
    several = [finding("never.py", 4), finding("train.py", 2, "host/a"), finding("train.py", 4), finding("train.py", 9)]
    answer = checkup((MAP, 9, 2.0), (MAP, 3, 6.0), healthy=("host/a",))
    found = recording_match.add_runtime_costs(several, answer, trace)
    assert [(f.file, f.line) for f in found] == [("train.py", 4), ("train.py", 9), ("never.py", 4), ("train.py", 2)]
