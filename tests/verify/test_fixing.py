"""How ``fix`` goes from one cure to the next, with probes and diagnoses that are told instead of run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from slowtrain.columns.steps import Steps
from slowtrain.diagnose import Findings
from slowtrain.errors import InputError
from slowtrain.model import Diagnosis, Edit, Effect, Evidence, Place, Prescription, Saving, Unchecked
from slowtrain.model.measurements import ManualCure, Proof
from slowtrain.trace import Trace
from slowtrain.verify.fix import fix_loop, remaining_work
from slowtrain.verify.measurement import candidate_proof, probe_process
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import INCOMPARABLE_STEPS, LOOK_PAIRS, Bench
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script, Treatment

TEXT = "slow = 4\nidle = 3\n"
LOSSES = tuple({"loss": 1.0 / (i + 1)} for i in range(20))
Times = Callable[[str], float]


def diagnosis(
    name: str, line: int, old: str, new: str, effect: Effect = Effect.EXACT, scope: str = "step"
) -> Diagnosis:
    edit = Edit("train.py", (line, len(old)), (line, len(old) + 1), new)
    cure = Prescription("edit", effect, f"cure {name}", edits=(edit,))
    return Diagnosis(name, name, Evidence(name), Saving(scope, 2.0, 1.0, 1.5, 2.5), 0.5, (cure,))


class World:
    """A script of two figures: each is a cause until it is 1; ``times`` says how long a text takes a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: Times, *diagnoses: Diagnosis) -> None:
        self.path = tmp_path / "train.py"
        self.path.write_text(TEXT)
        self.times = times
        self.diagnoses = diagnoses
        self.losses: Callable[[str], tuple[Mapping[str, float], ...]] = lambda _: LOSSES
        self.failed: Callable[[str], str | None] = lambda _: None
        self.work: Callable[[str], str] = lambda _: ""
        self.stopped = False
        self.texts: dict[Path, str] = {}
        self.order: list[str] = []
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(probe_process, "run_probe", self.run)
        monkeypatch.setattr(
            "slowtrain.verify.fix.fix_loop.recording_trace.load_recording",
            lambda folder: structs.replace(Trace(), root=str(tmp_path), facts={"at": folder}),
        )
        monkeypatch.setattr("slowtrain.verify.fix.fix_loop.diagnose.diagnose_trace", self.examine)
        monkeypatch.setattr(
            fix_loop, "build_checkup", lambda _trace, findings, **_named: findings
        )  # what is read of it
        (tmp_path / "runs").mkdir()
        self.bench = Bench(Script("train.py"), tmp_path / "runs", time.monotonic() + 100)

    def run(self, _script: Script, candidate: Candidate, _rule: Rule, folder: Path, **_options: Any) -> Probe:
        folder.mkdir()
        text = candidate.texts.get(str(self.path), self.path.read_text())
        self.texts[folder] = text
        self.order.append(candidate.name)
        noise = 1 + 0.001 * (len(self.order) % 3)
        ms = self.times(text) * noise / (2 if candidate.treatment.cures else 1)
        return Probe(
            folder,
            10 * ms,
            ms,
            ms,
            self.stopped,
            0.1,
            self.losses(text),
            failed=self.failed(text),
            work=self.work(text),
        )

    def examine(self, trace: Trace) -> Findings:
        text = self.texts[trace.facts["at"]]
        return Findings(tuple(d for d in self.diagnoses if d.cause not in text and self.left(d, text)))

    @staticmethod
    def left(found: Diagnosis, text: str) -> bool:
        edits = found.prescriptions[0].edits
        return not edits or edits[0].text not in text.split("\n")[edits[0].start[0] - 1]

    def fix(self, allowed: frozenset[Effect] = fix_loop.DEFAULT_EFFECTS) -> Proof:
        return fix_loop.fix_script(self.bench, allowed)


def outcome(proof: Proof) -> list[tuple[str, bool, str]]:
    return [(a.name, a.kept, a.why) for a in proof.attempts]


FIRST, SECOND = diagnosis("first", 1, "slow = ", "1"), diagnosis("second", 2, "idle = ", "1")


def test_what_helps_is_kept_and_the_rest_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST, SECOND)
    proof = world.fix()
    assert outcome(proof) == [("first", True, ""), ("second", False, "it does not help")]
    assert proof.together is not None
    assert proof.together.speedup == pytest.approx(4.0, rel=0.01)
    assert (proof.together.outcome, proof.together.loss) == ("better", "same")
    assert [f.after for f in proof.files] == [b"slow = 1\nidle = 3\n"]
    assert proof.diff.splitlines()[:2] == ["--- a/train.py", "+++ b/train.py"]
    assert world.path.read_text() == TEXT  # nothing is written without being asked


def test_what_costs_no_time_is_said_and_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = structs.replace(SECOND, saving=structs.replace(SECOND.saving, after_ms=SECOND.saving.before_ms))
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST, free)
    proof = world.fix()
    assert outcome(proof) == [("first", True, "")]
    assert [n for n in proof.notes if n.startswith("second costs no time")]


def test_two_that_help_are_measured_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 8.0 / (1 + text.count("= 1")), FIRST, SECOND)
    proof = world.fix()
    assert [kept for _, kept, _ in outcome(proof)] == [True, True]
    assert world.order.count("together") >= 3
    assert proof.together is not None
    assert proof.together.speedup == pytest.approx(3.0, rel=0.01)


def test_time_to_measure_them_together_is_set_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second cure that would take the rest of the budget is not begun."""
    world = World(monkeypatch, tmp_path, lambda text: 8.0 / (1 + text.count("= 1")), FIRST, SECOND)
    clock, run, begun = {"s": 0.0}, world.run, time.monotonic()

    def timed(*given: Any, **options: Any) -> Probe:
        clock["s"] += 1.0
        return replace(run(*given, **options), wall_s=1.0)

    monkeypatch.setattr(probe_process, "run_probe", timed)
    monkeypatch.setattr("slowtrain.verify.measurement.paired_trial.time.monotonic", lambda: begun + clock["s"])
    world.bench = replace(world.bench, deadline=begun + 20.0)
    proof = world.fix()
    assert [kept for _, kept, _ in outcome(proof)] == [True, False]
    assert clock["s"] <= 20.0
    assert proof.together is not None


@pytest.mark.parametrize(("budget_s", "most_s"), [(75.0, 30.0), (100.0, 40.0), (180.0, 60.0), (600.0, 180.0)])
def test_a_short_budget_is_not_spent_on_the_diagnosis(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, budget_s: float, most_s: float
) -> None:
    """Two fifths of it at most, a minute if that is less; of a long one three tenths."""
    world = World(monkeypatch, tmp_path, lambda _: 4.0, FIRST)
    run, given = world.run, []

    def noting(*args: Any, **options: Any) -> Probe:
        given.append(options.get("limit_s"))
        return run(*args, **options)

    monkeypatch.setattr(probe_process, "run_probe", noting)
    monkeypatch.setattr("slowtrain.verify.measurement.paired_trial.time.monotonic", lambda: 0.0)
    world.bench = replace(world.bench, deadline=budget_s)
    world.fix()
    assert given[0] == pytest.approx(most_s)


def test_baseline_and_candidate_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST)
    world.fix()
    assert world.order[:7] == ["script", "baseline", "first", "first", "baseline", "baseline", "first"]


def test_a_cure_that_makes_it_slower_is_never_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 2.0 if "slow = 1" in text else 1.0, FIRST)
    proof = world.fix()
    assert outcome(proof) == [("first", False, "it does not help")]
    assert (proof.diff, proof.files, proof.together) == ("", (), None)


def test_a_broken_promise_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST)
    other = tuple({"loss": row["loss"] * 1.001} for row in LOSSES)
    world.losses = lambda text: other if "slow = 1" in text else LOSSES
    ((name, kept, why),) = outcome(world.fix())
    assert (name, kept) == ("first", False)
    assert why.startswith("declared exact, but the loss differs")


def test_a_candidate_that_fails_is_dropped_with_its_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0, FIRST)
    world.failed = lambda text: "exit code 1: NameError: x" if "slow = 1" in text else None
    assert outcome(world.fix()) == [("first", False, "first: exit code 1: NameError: x")]


def test_a_script_that_fails_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0, FIRST)
    world.failed = lambda _: "exit code 1: OSError: no data"
    with pytest.raises(InputError, match=r"unchanged script does not run .*no data"):
        world.fix()


def test_what_changes_training_needs_to_be_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = diagnosis("first", 1, "slow = ", "1", Effect.CHANGES_TRAINING)
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, found)
    proof = world.fix()
    needs = "--allow changes-training"
    assert proof.attempts == ()
    assert proof.by_hand == (ManualCure("first", "cure first", Effect.CHANGES_TRAINING, needs=needs),)
    proof = world.fix(fix_loop.DEFAULT_EFFECTS | {Effect.CHANGES_TRAINING})
    assert (outcome(proof), proof.by_hand) == ([("first", True, "")], ())


def test_what_changes_training_is_told_beside_what_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The words of a cause whose edit was dropped are told, too; what was tried is not told again."""
    safe = FIRST.prescriptions[0]
    bold = structs.replace(safe, says="bolder", effect=Effect.CHANGES_TRAINING)
    words = Prescription("advice", Effect.EQUIVALENT, "buy a disk")
    places = tuple(Place("train.py", line) for line in (3, 5, 7, 9))
    found = structs.replace(FIRST, evidence=Evidence("slow", where=places), prescriptions=(safe, bold, words))
    proof = World(monkeypatch, tmp_path, lambda _: 1.0, found).fix()
    assert outcome(proof) == [("first", False, "it does not help")]
    where = ("train.py:3", "train.py:5", "train.py:7")
    assert [(one.says, one.effect, one.needs) for one in proof.by_hand] == [
        ("buy a disk", Effect.EQUIVALENT, None),
        ("bolder", Effect.CHANGES_TRAINING, remaining_work.ALLOW_OPTION),
    ]
    assert {one.where for one in proof.by_hand} == {where}


def test_of_a_run_that_was_ended_nobody_knows_the_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = diagnosis("first", 1, "slow = ", "1", scope="run")
    world = World(monkeypatch, tmp_path, lambda _: 1.0, found)
    world.stopped = True
    proof = world.fix()
    assert proof.attempts == ()
    assert any("causes of the whole run were not tried" in note for note in proof.notes)


def test_an_edit_that_is_no_python_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0, diagnosis("first", 1, "slow = ", "("))
    ((_, kept, why),) = outcome(world.fix())
    assert not kept
    assert "would not parse" in why


def test_no_time_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0, FIRST)
    world.bench = replace(world.bench, deadline=time.monotonic() + 1.0)
    world.times = lambda _: 60.0
    monkeypatch.setattr(fix_loop, "MIN_PROOF_S", 50.0)
    ((_, kept, why),) = outcome(world.fix())
    assert not kept
    assert "give a longer --budget" in why


def test_a_cache_is_not_measured_where_no_probe_comes_to_the_second_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = structs.replace(FIRST, prescriptions=(structs.replace(FIRST.prescriptions[0], later=True),))
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, kept)
    world.stopped = True
    steps = structs.replace(
        Trace().steps, start_ms=np.arange(9.0), end_ms=np.arange(9.0) + 1, block=np.zeros(9, dtype=np.int64)
    )
    monkeypatch.setattr(
        "slowtrain.verify.fix.fix_loop.recording_trace.load_recording",
        lambda folder: structs.replace(Trace(), root=str(tmp_path), facts={"at": folder}, steps=steps),
    )
    ((_, cured, why),) = outcome(world.fix())
    assert (cured, why) == (False, fix_loop.NEEDS_SECOND_RUN)


def test_a_person_is_told_what_no_machine_can_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = structs.replace(FIRST, prescriptions=(Prescription("advice", Effect.EXACT, "buy a disk"),))
    world = World(monkeypatch, tmp_path, lambda _: 1.0, words)
    proof = world.fix()
    assert (proof.attempts, proof.by_hand) == ((), (ManualCure("first", "buy a disk", Effect.EXACT),))


def test_pairs_go_on_until_they_can_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    noise = iter([1.0, 1.3, 0.8, 1.1, 1.2, 0.9] * 20)
    world = World(monkeypatch, tmp_path, lambda text: next(noise) * (1.0 if "slow = 1" in text else 1.02), FIRST)
    proof = world.fix()
    assert proof.attempts[0].verdict is not None
    assert proof.attempts[0].verdict.runs > 2 * LOOK_PAIRS[0]


def test_where_samples_are_not_known_steps_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST)
    known = world.run

    def run(*args: Any, **options: Any) -> Probe:
        found = known(*args, **options)
        return replace(found, sample_ms=None) if world.texts[found.folder] == TEXT else found

    monkeypatch.setattr(probe_process, "run_probe", run)
    assert outcome(world.fix()) == [("first", True, "")]


def test_a_second_cure_may_be_of_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("x = 1\n")
    other = structs.replace(SECOND.prescriptions[0], edits=(Edit("data.py", (1, 4), (1, 5), "2"),))
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST)
    world.diagnoses = (FIRST, structs.replace(SECOND, prescriptions=(other,)))
    proof = world.fix()
    assert [(a.name, a.kept) for a in proof.attempts] == [("first", True), ("second", False)]
    assert "+x = 2" in proof.attempts[1].diff
    assert "slow" not in proof.attempts[1].diff


@pytest.mark.parametrize("file", [None, "elsewhere/not_there.py"])
def test_what_cannot_be_written_is_measured_without_an_edit(
    file: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = diagnosis("sluggish", 1, "slow = 4", "1")
    edits = (Edit(file, (1, 7), (1, 8), "1"),) if file else ()
    cure = Prescription("edit", Effect.EXACT, "cure slow", edits=edits, treatment="prefetch")
    world = World(monkeypatch, tmp_path, lambda _: 4.0, structs.replace(found, prescriptions=(cure,)))
    proof = world.fix()
    (attempt,) = proof.attempts
    assert not attempt.kept
    assert attempt.why == remaining_work.PROVEN_WITHOUT_EDIT
    assert attempt.verdict is not None
    assert attempt.verdict.speedup == pytest.approx(2.0, rel=0.01)
    assert proof.diff == ""
    assert [(one.cause, one.says) for one in proof.by_hand] == [("sluggish", "cure slow")]


def test_what_did_not_help_the_running_script_is_left_to_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cure = Prescription("treatment", Effect.EXACT, "cure slow", treatment="prefetch")
    found = structs.replace(FIRST, prescriptions=(cure, Prescription("advice", Effect.EXACT, "buy a disk")))
    world = World(monkeypatch, tmp_path, lambda _: 4.0, found)
    run = world.run

    def useless(script: Script, candidate: Candidate, *given: Any, **options: Any) -> Probe:
        return run(script, replace(candidate, treatment=Treatment()), *given, **options)

    monkeypatch.setattr(probe_process, "run_probe", useless)
    proof = world.fix()
    assert outcome(proof) == [("first", False, "it does not help")]
    assert [one.says for one in proof.by_hand] == ["buy a disk"]


def test_calls_of_predict_are_not_timed_against_steps_that_train(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A row that is predicted and one that is trained on have nothing in common: whole runs are timed."""
    world = World(monkeypatch, tmp_path, lambda text: 0.4 if "slow = 4" in text else 0.1, FIRST)
    world.work = lambda text: probe_process.CALLS if "slow = 4" in text else probe_process.TRAINING
    proof = world.fix()
    (attempt,) = proof.attempts
    assert attempt.kept
    assert (attempt.predicted, attempt.remark) == (None, fix_loop.WHOLE_RUNS_TIMED)
    assert attempt.verdict is not None
    assert attempt.verdict.scope == "run"
    assert attempt.verdict.speedup == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize(
    ("stopped", "left_s", "why"),
    [
        pytest.param(True, 100.0, INCOMPARABLE_STEPS, id="the whole was not seen"),
        pytest.param(False, 45.0, f"{INCOMPARABLE_STEPS}; give a longer --budget", id="there is no time for the whole"),
    ],
)
def test_where_whole_runs_cannot_be_timed_calls_of_predict_tell_nothing(
    stopped: bool, left_s: float, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 10.0 if "slow = 4" in text else 1.0, FIRST)
    world.work = lambda text: probe_process.CALLS if "slow = 4" in text else probe_process.TRAINING
    world.stopped = stopped
    world.bench = replace(world.bench, deadline=time.monotonic() + left_s)
    (attempt,) = world.fix().attempts
    assert (attempt.kept, attempt.verdict, attempt.why) == (False, None, why)


def test_two_scripts_whose_steps_differ_in_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 4.0 if "slow = 4" in text else 1.0)
    world.work = lambda text: probe_process.CALLS if "slow = 4" in text else probe_process.TRAINING
    files = EditedFiles({world.path: b""}, {world.path: b"slow = 1\n"})
    (attempt,) = candidate_proof.prove_candidate(world.bench, files, "candidate", "step", None).attempts
    assert (attempt.kept, attempt.verdict, attempt.why) == (False, None, f"{INCOMPARABLE_STEPS} (--scope run)")
    (whole,) = candidate_proof.prove_candidate(world.bench, files, "candidate", "run", None).attempts
    assert whole.kept


@pytest.mark.parametrize("module", [False, True])
def test_what_no_probe_can_keep_to_itself_is_said_before_the_first(
    module: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0)
    world.path.write_text(TEXT + "import sqlite3\nsqlite3.connect('runs.db')\n")
    said: list[tuple[str, int]] = []
    script = Script("train" if module else "train.py", (), module)
    world.bench = replace(world.bench, script=script, warn=lambda words: said.append((words, len(world.order))))
    line = f"train.py:{TEXT.count(chr(10)) + 2} sqlite3 opens a database"
    assert world.fix().limits == (line,)
    candidate = EditedFiles({world.path: b""}, {world.path: b"import os\nos.system('date')\n"})
    proof = candidate_proof.prove_candidate(world.bench, candidate, "candidate", "step", None)
    assert proof.limits == (line, "train.py:2 os.system starts other programs")
    before = "happens in every probe and cannot be prevented: "
    assert [words for words, _ in said] == [before + one for one in (line, *proof.limits)]
    assert said[0][1] == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_a_script_that_trains_for_a_moment_is_told_what_was_not_checked(
    stopped: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0)
    world.stopped = stopped
    ms, none = np.arange(8.0), np.zeros(8, dtype=np.int64)
    trace = structs.replace(Trace(), root=str(tmp_path), steps=Steps("fit", ms, ms + 1, none > 0, none > 0, none, none))
    monkeypatch.setattr("slowtrain.verify.fix.fix_loop.recording_trace.load_recording", lambda _: trace)
    unchecked = (Unchecked("host/eager-step", ("kernels",)), Unchecked("compute/faster-on-cpu", ("crossover",)))
    monkeypatch.setattr(
        "slowtrain.verify.fix.fix_loop.diagnose.diagnose_trace", lambda _: Findings(unchecked=unchecked)
    )
    notes = world.fix().notes
    said = [n for n in notes if "8 steps" in n and n.endswith("check these causes: host/eager-step")]
    assert (len(notes), len(said)) == ((0, 0) if stopped else (1, 1))


def test_what_is_not_the_same_to_the_bit_is_remarked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST)
    world.losses = lambda _: ()
    (attempt,) = world.fix().attempts
    assert attempt.kept
    assert attempt.remark.startswith("loss could not be compared: neither losses nor weights")
    several = iter(range(1000))
    world.losses = lambda _: tuple({"loss": row["loss"] + 1e-6 * (next(several) % 7)} for row in LOSSES)
    proof = world.fix()
    (attempt,) = proof.attempts
    assert attempt.kept
    assert "over 20 steps, allowed " in attempt.remark
    (note,) = (
        n
        for n in proof.notes
        if n.startswith("two runs of the unchanged script differ: the loss of a step differs by ")
    )
    assert note.endswith(" of the mean")


def test_what_a_cure_compiles_before_the_first_step_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 1.0 if "slow = 1" in text else 4.0, FIRST)
    run = world.run

    def compiling(*given: Any, **options: Any) -> Probe:
        found = run(*given, **options)
        return replace(found, first_step_s=25.0 if "slow = 1" in world.texts[found.folder] else 5.0)

    monkeypatch.setattr(probe_process, "run_probe", compiling)
    (attempt,) = world.fix().attempts
    assert attempt.verdict is not None
    assert attempt.verdict.first_step_s == pytest.approx((5.0, 25.0))


FITS = """def go(model):
    model.fit(x, epochs=1)
    scaler.fit(x)
    model.fit(
        x,
        epochs=9,
    )
"""


@pytest.mark.parametrize(
    ("came_to", "stopped", "said"),
    [
        ((2,), True, ["the probes ended in the fit of train.py:2, so that of train.py:4 was not measured"]),
        ((2, 5), True, []),
        ((2,), False, []),
        ((), True, []),
    ],
)
def test_trainings_that_no_probe_came_to_are_named(
    came_to: tuple[int, ...], stopped: bool, said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0)
    world.path.write_text(FITS)
    run = world.run
    fits = tuple(Place(str(world.path), line) for line in came_to)
    monkeypatch.setattr(probe_process, "run_probe", lambda *a, **o: replace(run(*a, **o), stopped=stopped, fits=fits))
    assert [n for n in world.fix().notes if "fit" in n] == said


def test_text_that_is_run_as_code_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, lambda _: 1.0)
    world.path.write_text("import other\nmodel.eval()\nexec(open('x').read())\n")
    (tmp_path / "other.py").write_text("def eval(model):\n    pass\n\n\neval(3)\n")
    assert world.fix().notes == ("train.py:3 runs text as code (exec), which no edit can change",)
