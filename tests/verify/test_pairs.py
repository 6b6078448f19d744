"""Pairs of plain-Python runs: how a comparison ends."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from slowtrain.columns.steps import Steps
from slowtrain.model import Effect
from slowtrain.trace import Trace
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.paired_trial import Bench, Trial, run_trial
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script

from . import probing

SLOW = "import time\ntime.sleep(0.5)\n"


def compared(tmp_path: Path, candidate: str, scope: str = "run", seconds: float = 60.0, text: str = SLOW) -> Trial:
    script = probing.write(tmp_path / "project", text)
    (tmp_path / "runs").mkdir()
    bench = Bench(Script(str(script)), tmp_path / "runs", time.monotonic() + seconds)
    return run_trial(bench, Candidate("baseline"), Candidate("candidate", {str(script): candidate}), Rule(), scope)


@pytest.mark.bench
def test_a_candidate_that_is_faster(tmp_path: Path) -> None:
    trial = compared(tmp_path, "pass")
    verdict = trial.verdict(Effect.EXACT)
    assert verdict is not None
    assert verdict.outcome == "better"
    assert verdict.low > 1.02
    assert (verdict.runs, verdict.loss) == (2 * len(trial.pairs), "not measured")


def test_a_candidate_that_fails(tmp_path: Path) -> None:
    trial = compared(tmp_path, "raise ValueError('of the cure')")
    assert trial.failed == "candidate: exit code 1: ValueError: of the cure"
    assert (trial.pairs, trial.ratio, trial.verdict(None)) == ((), None, None)


def test_a_script_that_takes_no_steps(tmp_path: Path) -> None:
    trial = compared(tmp_path, "pass", scope="step")
    assert trial.failed == "no steady steps could be timed on both sides"


def test_a_script_that_takes_longer_than_there_is_time(tmp_path: Path) -> None:
    trial = compared(tmp_path, "pass", seconds=1.5, text="import time\ntime.sleep(60)")
    assert trial.failed == "the script takes longer than the time that is left"
    assert trial.ratio is None


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_time_that_is_over_decides_nothing(seconds: float, tmp_path: Path) -> None:
    trial = compared(tmp_path, SLOW + "x = 1", seconds=seconds)
    assert len(trial.pairs) < 3
    verdict = trial.verdict(None)
    assert verdict is None or verdict.outcome == "cannot tell"


def steps(ms: list[float], windowed: int = 0) -> Trace:
    """Steps one after the other, the first two of warm-up, the last ``windowed`` of them in a window."""
    end = np.cumsum(ms)
    number = np.arange(len(ms))
    window = number >= len(ms) - windowed
    none = np.zeros(len(ms), dtype=np.int64)
    return structs.replace(Trace(), steps=Steps("step", end - ms, end, (number >= 2) & ~window, window, none, none))


def test_steps_that_are_long_now_and_then_want_a_longer_probe() -> None:
    rare = [10.0] * 19 + [300.0]
    assert probe_process.required_steps(steps([900.0, 50.0, *rare * 4])) == 6 * 20
    assert probe_process.required_steps(steps([900.0, 50.0, *[10.0] * 80])) == 0  # warm-up is none of them
    assert (
        probe_process.required_steps(steps([900.0, 50.0, *[10.0] * 80, 300.0], windowed=1)) == 0
    )  # nor is what the profiler takes
    assert probe_process.required_steps(steps([900.0, 50.0, *[10.0] * 400, 80.0])) == 0  # one of the machine's own
    assert probe_process.required_steps(steps([9e5, 9e5, *[1e4] * 9, 9e4])) == int(
        probe_process.MAX_TRAINING_S / 18
    )  # no longer than that
    assert probe_process.required_steps(Trace()) == 0


@pytest.mark.parametrize(("stopped", "wall_s"), [(True, 0.1), (True, 9.9), (False, 0.1)])
def test_a_pair_that_was_too_short_is_run_again(
    stopped: bool, wall_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(_script: Script, candidate: Candidate, rule: Rule, folder: Path, **_options: Any) -> Probe:
        folder.mkdir()
        asked.append(rule.steps)
        slow = 4.0 if candidate.name == "baseline" and rule.steps > 30 else 1.0
        return Probe(folder, slow, slow, wall_s, stopped, 0.1, steps_wanted=90 if candidate.name == "baseline" else 0)

    monkeypatch.setattr(probe_process, "run_probe", run)
    bench = Bench(Script("train.py"), tmp_path, time.monotonic() + 59)
    trial = run_trial(bench, Candidate("baseline"), Candidate("candidate"), Rule(seconds=3.0), "step")
    assert trial.ratio is not None
    if stopped and wall_s < 1.0:
        assert (asked[:2], set(asked[2:]), trial.ratio.speedup) == ([30, 30], {90}, 4.0)
    else:  # the script ended by itself: there are no more steps; or there is no time for three longer pairs
        assert (set(asked), trial.ratio.speedup) == ({30}, 1.0)


@pytest.mark.parametrize("scope", ["step", "run"])
@pytest.mark.parametrize("failed", [None, "its time ended before it started"])
def test_a_probe_that_the_end_of_the_time_cuts_short_costs_no_pair_but_its_own(
    scope: str, failed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    now_s = [100.0]

    def run(_script: Script, candidate: Candidate, _rule: Rule, folder: Path, **_options: Any) -> Probe:
        folder.mkdir()
        done.append(candidate.name)
        ms = (1.0, 1.0, 1.1, 1.2, 0.9, 1.0)[len(done) - 1]  # too far apart to decide
        if len(done) < 6:
            return Probe(folder, ms, ms, 1e-3 * ms, False, 0.1)
        now_s[0] = bench.deadline
        return Probe(folder, None, None, 1.0, True, None, failed=failed)

    monkeypatch.setattr(probe_process, "run_probe", run)
    monkeypatch.setattr("slowtrain.verify.measurement.paired_trial.time.monotonic", lambda: now_s[0])
    bench = Bench(Script("train.py"), tmp_path, now_s[0] + 2)
    trial = run_trial(bench, Candidate("baseline"), Candidate("candidate"), Rule(), scope)
    assert (trial.failed, len(trial.pairs), len(done)) == (None, 2, 6)
    assert trial.verdict(None) is not None


def test_a_probe_tells_how_long_it_runs(tmp_path: Path) -> None:
    script = probing.write(tmp_path / "project", SLOW)
    ticks: list[float] = []
    bench = Bench(Script(str(script)), tmp_path, time.monotonic() + 60, tick=ticks.append)
    run_trial(replace(bench, deadline=time.monotonic()), Candidate("baseline"), Candidate("candidate"), Rule(), "run")
    assert ticks
