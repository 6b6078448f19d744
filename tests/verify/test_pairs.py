"""Pairs of plain-Python runs: how a comparison ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slowtrain.model import Effect
from slowtrain.verify.pairs import Bench, Trial, compare
from slowtrain.verify.probes import Candidate, Rule, Script

from . import probing

pytestmark = pytest.mark.alone

SLOW = "import time\ntime.sleep(0.5)\n"


def compared(tmp_path: Path, candidate: str, scope: str = "run", seconds: float = 60.0, text: str = SLOW) -> Trial:
    script = probing.write(tmp_path / "project", text)
    (tmp_path / "runs").mkdir()
    bench = Bench(Script(str(script)), tmp_path / "runs", time.monotonic() + seconds)
    return compare(bench, Candidate("baseline"), Candidate("candidate", {str(script): candidate}), Rule(), scope)


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
    assert trial.failed == "no steady steps could be timed in both"


def test_a_script_that_takes_longer_than_there_is_time(tmp_path: Path) -> None:
    trial = compared(tmp_path, "pass", seconds=1.5, text="import time\ntime.sleep(60)")
    assert trial.failed == "the script runs longer than the time that is left"
    assert trial.ratio is None


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_time_that_is_over_decides_nothing(seconds: float, tmp_path: Path) -> None:
    trial = compared(tmp_path, SLOW + "x = 1", seconds=seconds)
    assert len(trial.pairs) < 3
    verdict = trial.verdict(None)
    assert verdict is None or verdict.outcome == "cannot tell"
