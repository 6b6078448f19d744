"""Cures that help one by one and not together, in the told world of ``test_fixing``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slowtrain.model import Diagnosis, Effect
from slowtrain.report import proof as report
from slowtrain.verify.measurement import candidate_proof, probe_process
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script

from .test_fixing import FIRST, LOSSES, SECOND, World, diagnosis, outcome

THIRD = diagnosis("third", 3, "last = ", "1")
Change = Callable[[Probe, str], Probe]


def together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Change, *diagnoses: Diagnosis) -> World:
    """Every figure is worth the same, and ``change`` is what they do to each other."""
    world = World(monkeypatch, tmp_path, lambda text: 8.0 / (1 + text.count("= 1")), *diagnoses)
    run = world.run

    def changed(script: Script, candidate: Candidate, *given: Any, **options: Any) -> Probe:
        found = run(script, candidate, *given, **options)
        return change(found, world.texts[found.folder]) if candidate.name == "together" else found

    monkeypatch.setattr(probe_process, "run_probe", changed)
    return world


def slower(found: Probe, _text: str) -> Probe:
    return replace(found, step_ms=80.0, sample_ms=8.0)


def noisy(found: Probe, _text: str) -> Probe:
    number = int(found.folder.name.rpartition("-")[2])
    return replace(found, step_ms=None, sample_ms=8.0 * (2.0 if number % 4 < 2 else 0.5))


def another(found: Probe, _text: str) -> Probe:
    return replace(found, losses=tuple({"loss": row["loss"] * 1.001} for row in LOSSES))


def failing(found: Probe, _text: str) -> Probe:
    return replace(found, failed="exit code 1: ValueError: both")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (slower, "it does not help"),
        (noisy, "20 pairs cannot distinguish it from noise"),
        (another, "declared exact, but the loss differs by 0.0056 over 20 steps, allowed 0; two baselines differ by 0"),
        (failing, "together: exit code 1: ValueError: both"),
    ],
)
def test_the_last_cure_goes_where_they_do_not_help_together(
    change: Change, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proof = together(monkeypatch, tmp_path, change, FIRST, SECOND).fix()
    reason = f"better alone, but together with first: {why}"
    assert outcome(proof) == [("first", True, ""), ("second", False, reason)]
    assert [f.after for f in proof.files] == [b"slow = 1\nidle = 3\n"]
    assert "idle" not in "".join(line for line in proof.diff.splitlines() if line[0] in "+-")
    assert proof.together == proof.attempts[0].verdict  # it stands by its own trial
    assert proof.together is not None
    assert proof.together.speedup == pytest.approx(2.0, rel=0.01)
    assert proof.after is not None
    assert [d.cause for d in proof.after.diagnoses] == ["second"]  # of the script as it is handed out
    assert report.proof_headline(replace(proof, before=None)).startswith("1 cure kept: 2.0x")


def test_the_rest_is_measured_together_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = together(
        monkeypatch, tmp_path, lambda f, text: slower(f, text) if "last = 1" in text else f, FIRST, SECOND, THIRD
    )
    world.path.write_text("slow = 4\nidle = 3\nlast = 2\n")
    proof = world.fix()
    assert [(name, kept) for name, kept, _ in outcome(proof)] == [("first", True), ("second", True), ("third", False)]
    assert "together with first, second: it does not help" in proof.attempts[2].why
    assert proof.together is not None
    assert proof.together.speedup == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize("within_s", [0.0, 6.0])
def test_where_the_time_is_over_it_is_said(within_s: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before the first pair of them, or in the midst of it."""
    world = World(monkeypatch, tmp_path, lambda text: 8.0 / (1 + text.count("= 1")), FIRST, SECOND)
    begun, over, run = time.monotonic(), {"s": 0.0}, world.run
    monkeypatch.setattr("slowtrain.verify.measurement.paired_trial.time.monotonic", lambda: begun + over["s"])

    def timed(script: Script, candidate: Candidate, *given: Any, **options: Any) -> Probe:
        if candidate.name == "second" and world.order.count("second") == 2:
            over["s"] = 100.0 - within_s
        if candidate.name == "together":
            over["s"] = 100.0
        return replace(run(script, candidate, *given, **options), wall_s=1.0)

    monkeypatch.setattr(probe_process, "run_probe", timed)
    world.bench = replace(world.bench, deadline=begun + 100.0)
    proof = world.fix()
    assert [kept for _, kept, _ in outcome(proof)] == [True, True]
    assert proof.together is None
    assert candidate_proof.NO_TIME_TOGETHER in proof.notes
    assert report.proof_headline(replace(proof, before=None)).endswith("not measured together")
    assert ("together" in world.order) == (within_s > 0)


def test_what_is_allowed_is_what_the_weakest_promises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    weaker = diagnosis("second", 2, "idle = ", "1", Effect.EQUIVALENT)
    proof = together(monkeypatch, tmp_path, another, FIRST, weaker).fix()
    assert [kept for _, kept, _ in outcome(proof)] == [True, True]
    assert proof.together is not None
    assert proof.together.loss == "within 1e-03"
    assert "all together: loss differs by 0.1% in the mean of 20 steps, allowed 2.1%" in proof.notes


STEP, LONG = (Rule(seconds=3.0), "step"), (Rule(seconds=9.0, steps=90), "step")
CACHE, WHOLE = (Rule(seconds=30.0, later=True), "step"), (Rule(), "run")


def test_the_joint_probes_are_as_long_as_the_longest() -> None:
    assert candidate_proof.joint_rule([STEP, LONG]) == LONG
    assert candidate_proof.joint_rule([LONG, CACHE]) == (Rule(seconds=30.0, steps=90, later=True), "step")
    assert candidate_proof.joint_rule([STEP, WHOLE]) == WHOLE
    assert candidate_proof.joint_rule([STEP, (Rule(later=True), "step")]) == (Rule(later=True), "step")


def test_the_diagnosis_of_what_is_left_does_not_take_the_time_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, lambda text: 8.0 / (1 + text.count("= 1")), FIRST, SECOND)
    begun, run, given = time.monotonic(), world.run, []

    def timed(script: Script, candidate: Candidate, *rest: Any, limit_s: float, **options: Any) -> Probe:
        if candidate.name == "script":
            given.append(limit_s)
        return replace(run(script, candidate, *rest, **options), wall_s=1.0)

    monkeypatch.setattr(probe_process, "run_probe", timed)
    monkeypatch.setattr("slowtrain.verify.measurement.paired_trial.time.monotonic", lambda: begun)
    world.bench = replace(world.bench, deadline=begun + 100.0)
    world.fix()
    assert given == pytest.approx([0.4 * 100, 0.4 * 100, 0.4 * (100 - 6)])
