"""What the checkup says of a run, from drawn traces: verdict, headline, sums, places, notes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from slowtrain import diagnose
from slowtrain.causes import all_causes
from slowtrain.checkup import build_checkup, chart_data
from slowtrain.model import Bar, Checkup, Place, Saving, VerdictKind
from slowtrain.report import documents, pages, text
from slowtrain.trace import Trace
from slowtrain.trace.run_division.recording_steps import ELEMENTS_SOURCE

from .drawn_trace import parse_drawing

FOLDER = Path("runs/7")

WAITING = """
    step    1111111111
    input   iiiiii....
    device  ......kkkk
    @steps size=32 line=2
    @pipeline Slices ms=0.1 > Map ms=5.8 line=1 > Batch ms=0.1 line=1
    @kernels busy=4 ms=4 step=10 wait=6 ops={"m/dense/MatMul:MatMul": [4, 3]}
"""
COMPUTING = """
    step    1111111111
    device  kkkkkkkkk.
    @steps size=32
    @kernels busy=9 ms=12 ops={"m/conv/Conv2D:Conv2D": [8, 1], "m/dense/MatMul:MatMul": [4, 2]}
"""
SHORT = """
    step    11 22 33
    device  kk kk kk
    @once
    @steps size=32
"""


def examined(drawing: str, **facts: object) -> Checkup:
    trace = parse_drawing(drawing)
    return of(structs.replace(trace, facts={**trace.facts, **facts}))


def of(trace: Trace) -> Checkup:
    return build_checkup(trace, diagnose.diagnose_trace(trace), folder=FOLDER)


def test_a_run_that_waits_is_input_bound() -> None:
    found = examined(WAITING)
    assert found.verdict is VerdictKind.INPUT
    assert found.diagnoses[0].cause.startswith("input/")
    assert "10 ms" in found.headline
    assert "\n" not in found.headline


def test_a_wait_that_nothing_explains_is_not_called_healthy() -> None:
    found = examined(WAITING.replace("@pipeline Slices ms=0.1 > Map ms=5.8 line=1 > Batch ms=0.1 line=1", ""))
    assert [d.cause for d in found.diagnoses] == ["input/unprefetched-input"]
    assert found.diagnoses[0].saving.low == 1.0
    assert found.verdict is VerdictKind.INPUT
    assert "healthy" not in found.headline


def test_overhead_that_nothing_explains_is_not_called_healthy() -> None:
    found = examined(
        """
        step     1111111111
        dispatch ddddddd...
        device   .......kkk
        """
    )
    assert [d.cause for d in found.diagnoses] == ["host/launch-bound"]
    assert found.diagnoses[0].saving.high == pytest.approx(10 / 3)
    assert "healthy" not in found.headline


PROFILED = '@fact profile=true devices=[{"kind":"CPU"}] told_steps=true\n        @device kind=CPU kernels=200'
OVERHEAD = {
    VerdictKind.HOST: f"""
        step     1111111111
        dispatch ddddddd...
        device   .......kkk
        {PROFILED} busy=3
        """,
    VerdictKind.LAUNCH: f"""
        step     1
        dispatch d
        {PROFILED} busy=0
        """,
}


@pytest.mark.parametrize("kind", OVERHEAD)
def test_launch_bound_is_said_only_where_its_cause_is_not_ruled_out(kind: VerdictKind) -> None:
    """Calls of several ms of overhead are no launches: so says the cause, and the verdict."""
    found = examined(OVERHEAD[kind])
    assert found.verdict is kind
    assert ("host/launch-bound" in found.healthy) == (kind is VerdictKind.HOST)


def test_a_healthy_step_in_a_run_of_something_else() -> None:
    found = examined(COMPUTING + "\n        @phase preparation=90000\n")
    assert "% of the run is the script's own code outside training" in found.headline


def test_a_healthy_run_says_what_bounds_it() -> None:
    found = examined(COMPUTING)
    assert found.verdict is VerdictKind.COMPUTE
    assert "healthy" in found.headline
    assert all(d.saving.speedup == 1.0 for d in found.diagnoses)


def test_too_few_steps_are_not_judged() -> None:
    assert examined(SHORT).verdict is VerdictKind.INSUFFICIENT


def test_of_steps_that_nothing_told_apart_no_cause_is_called_healthy() -> None:
    """A whole epoch in one function: what is in it may be anything."""
    found = examined("step 1111111111\n@steps source=epoch size=32")
    assert found.verdict is VerdictKind.INSUFFICIENT
    assert not [c for c in found.healthy if c.startswith(("input/", "transfer/"))]
    assert found.next_steps[0].startswith("run it again and train for longer")
    assert examined(COMPUTING).healthy


def test_a_script_that_failed_before_it_trained() -> None:
    found = of(Trace(facts={"launch": {"exit_code": 1, "argv": ["python", "broken.py"]}}))
    assert found.verdict is VerdictKind.FAILED
    assert (
        "before any step was written to the recording" in found.headline
    )  # nothing says that the recorder came to its end
    assert found.subject.exit_code == 1
    assert any("exit code 1" in note for note in found.notes)


def test_a_script_that_failed_in_an_orderly_way_did_not_train() -> None:
    found = of(Trace(facts={"launch": {"exit_code": 1, "argv": ["python", "broken.py"]}, "end_ns": 5}))
    assert found.headline == "the script ended with exit code 1 before it trained anything"


@pytest.mark.parametrize("drawing", [WAITING, COMPUTING, SHORT])
def test_parts_add_up_and_each_cause_has_one_outcome(drawing: str) -> None:
    found = examined(drawing)
    for whole in (found.attribution, found.run):
        assert math.isclose(sum(p.ms for p in whole.parts), whole.total_ms, rel_tol=1e-3)
    outcomes = [d.cause for d in found.diagnoses] + list(found.healthy) + [u.cause for u in found.unchecked]
    assert len(outcomes) == len(set(outcomes))


def test_places_are_shown_as_the_user_knows_them(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("ds = ds.map(slow)  \nmodel.fit(ds)\n")
    trace = parse_drawing(WAITING)
    findings = diagnose.diagnose_trace(trace)
    first = findings.diagnoses[0]
    away = Place(str(tmp_path.parent / "gone.py"), 3)
    evidence = structs.replace(first.evidence, where=(Place(str(script), 1), Place(str(script), 99), away))
    findings = structs.replace(findings, diagnoses=(structs.replace(first, evidence=evidence),))
    inside, beyond, outside = (
        build_checkup(structs.replace(trace, root=str(tmp_path)), findings, folder=FOLDER).diagnoses[0].evidence.where
    )
    assert inside == Place("train.py", 1, "ds = ds.map(slow)")
    assert beyond == Place("train.py", 99, "")
    assert outside == away


def test_a_killed_script_is_noted() -> None:
    found = examined(COMPUTING, launch={"exit_code": 137, "argv": ["python", "train.py"]})
    assert any("signal 9" in note for note in found.notes)
    assert found.verdict is VerdictKind.COMPUTE


def test_pictures_show_the_input_and_one_step() -> None:
    shown = examined(WAITING).pictures
    assert shown.step_times is not None
    assert len(shown.step_times.x) == len(shown.step_times.y) > 0
    assert shown.typical_step[0].end_ms == pytest.approx(10)
    assert [n.name for n in shown.input_graph if n.bottleneck] == ["Map"]


def test_kernels_that_took_no_time_are_drawn_too() -> None:
    trace = parse_drawing(COMPUTING)
    assert trace.kernels is not None
    bars = (Bar("device", "m/conv/Conv2D", 0.0, 0.0),)
    shown = chart_data.typical_step_bars(structs.replace(trace, kernels=structs.replace(trace.kernels, bars=bars)))
    assert shown[-1] == bars[0]


@pytest.mark.parametrize("drawing", [WAITING, COMPUTING, SHORT])
def test_every_report_renders_it(drawing: str) -> None:
    found = examined(drawing)
    assert found.headline in " ".join(text.checkup_text(found, width=200).split())
    assert documents.checkup_document(found)["schema"] == documents.CHECKUP_SCHEMA
    assert "<svg" in pages.checkup_page(found, {})


@pytest.mark.parametrize(("busy", "told"), [(0.95, True), (0.5, False)])
def test_a_machine_that_others_use_is_told(busy: float, told: bool) -> None:
    """Of the processors none is left idle, and this process took none of their time: it was others'."""
    found = examined(COMPUTING + f"\n    @sample cpu_mean_share={busy} process_cpu_seconds=0")
    assert any("other processes used" in note for note in found.notes) is told


def test_of_a_recording_that_ended_early_it_is_said_how_much_of_the_run_this_is() -> None:
    launch = {"exit_code": 0, "start_ns": 10**9, "end_ns": 11 * 10**9}
    (note,) = [n for n in examined(WAITING, ended="its disk is full", launch=launch).notes if "ended before" in n]
    assert note.startswith("the recording ended before the script did (its disk is full): the report covers its first ")
    assert note.endswith(" s of 10 s")


def test_what_is_not_told_apart_for_want_of_windows_is_no_fault_of_the_scripts() -> None:
    found = examined("step 1111111111\n@repeat 400\n@steps size=32 source=function\n", windows=False)
    assert found.verdict is VerdictKind.INSUFFICIENT
    assert "100% of a step's 10 ms cannot be attributed" in found.headline
    assert "because the run was recorded without" in found.headline
    assert any("--no-windows" in step for step in found.next_steps)


WINDOW = '@event window name=profile start=1 end=400 data={"steps":0}'
LOOP = '@event trace name=step data={"training":true,"graph":{"types":{"While":1,"IteratorGetNext":1,"MatMul":4}}}'


@pytest.mark.parametrize(
    ("drawing", "facts", "said", "following"),
    [
        ("step 1\n@repeat 100\n@steps source=fit", {}, "too short for a profiler window", "run it again and train"),
        ("step 1111111111\n@once", {}, "", "run it again and train for longer"),
        (f"step 1\n@repeat 400\n{WINDOW}", {}, "too short for a profiler window", "run it again and train"),
        (
            'step 1\n@repeat 100\n@event loop name=fit start=0 end=400 data={"steps_per_execution":50}', {},
            "or call a function for each step", "train for longer, or loop over the batches",
        ),
        (
            f"step 1\n@repeat 100\n@steps source=function_step\n{LOOP}", {},
            "or call a function for each step", "train for longer, or loop over the batches",
        ),
        ("step 1\n@repeat 1000", {"unread": ("window-1 is empty",)}, "cannot be read", "run it again and do not"),
        ("step 1\n@repeat 1000", {}, "no profiler window was recorded", "run it again; if the script starts"),
        (f"step {'1' * 900}\n@repeat 20\n{WINDOW}", {}, "no complete step was in", "train for longer, or make a step"),
    ],
)  # fmt: skip
def test_why_nobody_looked_inside(drawing: str, facts: dict[str, object], said: str, following: str) -> None:
    """A function for each step is asked for only where calls run many; a run of 100 steps is too short."""
    found = examined(drawing, **facts)
    assert found.verdict is VerdictKind.INSUFFICIENT
    assert said in found.headline
    assert ("or call a function for each step" in found.headline) is ("call a function" in said)
    assert found.next_steps[0].startswith(following)


def test_of_a_run_that_nobody_looked_into_no_cause_is_excluded() -> None:
    """Half of a step is known, and no window: that nothing explains it would not be true, nor that it is healthy."""
    found = examined("step 1111111111\ncallback c.....\ndevice .ddddd....\n@once\n@repeat 100")
    assert "no known cause" not in found.headline
    assert "4 ms of it cannot be attributed because no profiler window was recorded" in found.headline


def test_steps_that_are_next_to_nothing_of_a_run_are_told_of() -> None:
    """A hundred short steps after seconds of imports, too few to look into one: where their time goes is known."""
    drawing = "step 1\ndispatch d\n@repeat 100\n@steps source=fit"
    found = examined(f"{drawing}\n@phase import=9000")
    assert [d.cause for d in found.diagnoses] == ["host/launch-bound"]
    assert found.diagnoses[0].run_share < 0.02


def test_the_headline_of_a_cure_of_the_run_says_where_the_run_goes() -> None:
    """Imports take more, as in every short run: no cure is about them."""
    (cause,) = (c for c in all_causes() if c.id == "host/elementwise-preprocessing")
    found = examined(cause.fires[0].replace("preparation=2000", "preparation=2000 import=9000"))
    assert found.diagnoses[0].cause == cause.id
    said = "2 of the run's 11.4 s are the script's own code outside training; curing host/elementwise-preprocessing "
    assert found.headline.startswith(said)


@pytest.mark.parametrize(
    ("after", "low", "high", "said"),
    [
        (50.0, 1.8, 2.1, "2x as fast"),
        (25.0, 2.0, 8.0, "2x to 8x as fast, most likely 4x"),
        (8.0, 2.2, 250.0, "2.2x to over 100x as fast, most likely 12x"),
        (0.4, 50.0, 250.0, "50x to over 100x as fast"),
    ],
)
def test_a_wide_range_stands_in_the_headline(after: float, low: float, high: float, said: str) -> None:
    """And what a replay leaves at least is no figure to promise."""
    trace = parse_drawing(WAITING)
    findings = diagnose.diagnose_trace(trace)
    saving = Saving("step", 100.0, after, low, high)
    findings = structs.replace(findings, diagnoses=(structs.replace(findings.diagnoses[0], saving=saving),))
    found = build_checkup(trace, findings, folder=FOLDER)
    assert found.headline.endswith(f" would make the step {said}")
    assert documents.checkup_document(found)["diagnoses"][0]["saving"]["high"] == high
    assert "250" not in text.checkup_text(found)


def test_why_a_cure_of_input_spares_more_than_the_wait_for_it() -> None:
    trace = parse_drawing(WAITING)
    findings = diagnose.diagnose_trace(trace)
    first = findings.diagnoses[0]
    for after, told in ((4.0, False), (2.0, True)):
        saving = Saving("step", 10.0, after, 1.5, 6.0)
        found = build_checkup(
            trace, structs.replace(findings, diagnoses=(structs.replace(first, saving=saving),)), folder=FOLDER
        )
        assert any("saves 2 ms more than the wait for input" in note for note in found.notes) is told


def test_the_headline_names_the_part_that_the_verdict_is_of() -> None:
    """Overhead and computing of one size, on a CPU: the verdict is of the computing, whichever is larger by a hair."""
    found = examined("step 1111111111\ndispatch ddddd.....\ndevice .....kkkk.\n@steps size=32")
    assert found.verdict is VerdictKind.COMPUTE
    assert "a step takes 10 ms, 4 ms of it computing and 5 ms framework overhead; " in found.headline
    assert "healthy" not in found.headline
    assert "curing host/launch-bound would make the step at most 2x as fast" in found.headline


def test_a_headline_says_that_nothing_is_trained_where_steps_are_elements() -> None:
    assert "trains nothing" not in examined(WAITING).headline
    trace = parse_drawing(WAITING)
    trace = structs.replace(trace, steps=structs.replace(trace.steps, source=ELEMENTS_SOURCE, training=False))
    assert build_checkup(trace, diagnose.diagnose_trace(trace), folder=FOLDER).headline.endswith(
        "the script trains nothing: a step is one element that it reads from a data set"
    )


@pytest.mark.parametrize(("shuffle", "said"), [(True, " (a shuffle buffer is refilled)"), (False, "")])
def test_what_passes_between_epochs_of_a_healthy_run_is_told(shuffle: bool, said: str) -> None:
    node = "Shuffle ms=0.1" if shuffle else "Batch ms=0.1"
    found = examined(
        f"{COMPUTING.replace('size=32', 'size=32 block=20 pause=100')}\n@phase epoch=100\n"
        f"@pipeline Slices ms=0.1 > {node}\n@event iterator made start=201 end=202"
    )
    assert f"20% of the run is between epochs, mostly waiting for new iterators{said}" in found.headline
    assert "between epochs" not in examined(COMPUTING + "\n@phase epoch=20").headline


def test_the_verdict_is_of_the_largest_part_whatever_the_cure_is_about() -> None:
    """Python that makes input keeps the interpreter's lock from the step, most of which is then no wait for a batch."""
    found = examined(
        """
        step     1111111111
        dispatch dddddd....
        input    ......i...
        device   .......kkk
        @fact cpu_ms_per_step=12 step_cpu_ms=4 usable_cores=2 devices=[{"kind":"CPU"}]
        @producer windows ms=8 calls=1 line=9 hot=11 visits=2000
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
        """
    )
    assert found.verdict is VerdictKind.HOST
    assert "6 ms of it framework overhead; curing input/" in found.headline


@pytest.mark.parametrize("drawing", [WAITING, COMPUTING, SHORT])
def test_a_loss_that_is_no_number_comes_before_any_speed(drawing: str) -> None:
    """However slow the step, and however few there are; what it is bound by is said beside it, as in the JSON."""
    bad = '@event nonfinite name=loss start=20 data={"step": 5, "value": "nan"}'
    found, usual = examined(f"{drawing}\n{bad}"), examined(drawing)
    assert found.headline.startswith("loss was nan at step 5 or before; ")
    assert found.next_steps[1] == "slowtrain explain numerics/nonfinite-loss"
    assert found.verdict is usual.verdict
    assert documents.checkup_document(found)["verdict"] == usual.verdict
    assert ("too few steps to judge" if usual.verdict is VerdictKind.INSUFFICIENT else usual.verdict) in found.headline
    assert text.checkup_text(found).startswith("LOSS NOT FINITE: loss was nan at step 5")
    assert '<span class="verdict bad">loss not finite</span>' in pages.checkup_page(found, {})
    assert not usual.lost


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (1, True, "fix the script's own error"),
        (3, False, "read what the script printed about its exit code 3"),
        (137, False, "find out what sent signal 9"),
        (130, True, ""),
    ],
)
def test_what_to_do_of_a_script_that_did_not_end_well(code: int, error: bool, said: str) -> None:
    """A killed one has left no traceback, and one that was interrupted has no error to mend."""
    found = examined(COMPUTING + "@event failure name=ValueError start=9" * error, launch={"exit_code": code})
    assert [row[: len(said)] for row in found.next_steps if "run it again" in row] == [said] * bool(said)


def test_batches_that_worker_processes_make_are_not_called_healthy() -> None:
    made = '@event loop name=fit start=0 end=400 data={"processes":true,"nested":0,"site":["train.py",3]}'
    found = examined(f"{COMPUTING}\n{made}\n@missing python")
    assert "input/python-input" in [u.cause for u in found.unchecked]
    assert any("worker processes" in note for note in found.notes)


@pytest.mark.parametrize(
    ("seen", "trained"),
    [("@span step train start=1 end=2", True), ("@span step predict start=1 end=2", False), ("", False)],
)
def test_a_step_or_two_are_no_proof_that_nothing_trains(seen: str, trained: bool) -> None:
    found = examined(f"@once\n@phase import=900\n{seen}")
    assert found.verdict is VerdictKind.INSUFFICIENT
    assert ("no training was found" in found.headline) is not trained
    assert any("train for longer" in row for row in found.next_steps) is trained


@pytest.mark.parametrize(
    ("window", "said", "following"),
    [
        (
            "@kernels busy=0 ms=0 count=0 step=1",
            "it omits operations of a few microseconds",
            "give each call more work",
        ),
        ("", "the run was too short for a profiler window", "run it again and train for longer"),
    ],
)
def test_why_steps_could_not_be_told_apart(window: str, said: str, following: str) -> None:
    found = examined(f"step 1\n@repeat 400\n{window}")
    assert found.verdict is VerdictKind.INSUFFICIENT
    assert said in found.headline
    assert any(row.startswith(following) for row in found.next_steps)


def test_a_card_that_vanished_during_the_run_is_told_of_once() -> None:
    trace = parse_drawing(COMPUTING)
    at, gone = np.arange(20) * 250.0, np.where(np.arange(20) < 8, 1980.0, np.nan)
    for column, told in ((gone, True), (np.full(20, 1980.0), False)):
        samples = {"time_ms": at, "gpu_sm_mhz_0": column}
        notes = build_checkup(
            structs.replace(trace, samples=samples), diagnose.diagnose_trace(trace), folder=FOLDER
        ).notes
        said = [note for note in notes if "returned no figures from 1.75 s of the run on" in note]
        assert len(said) == told
