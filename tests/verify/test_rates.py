"""Learning rates on a noisy valley, in place of a script: what is far from the best is found, and nothing else."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slowtrain.causes import cause_by_id
from slowtrain.errors import InputError
from slowtrain.model.measurements import RateSweep
from slowtrain.report import rates
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.learning_rates import rate_probes
from slowtrain.verify.learning_rates.steps_to_loss import compare_steps, end_loss, first_step_at, is_falling
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Candidate, Origin, Probe, Rule, Script

SCRIPT = "import keras\noptimizer = keras.optimizers.SGD(learning_rate={rate!r})\n"
CAUSE = cause_by_id("numerics/slow-convergence")


def descend(rate: float, seed: int, steps: int, noise: float) -> np.ndarray[Any, Any]:
    """Losses of stochastic gradient descent in a valley whose steepest side allows rates below 2."""
    rng = np.random.default_rng(seed)
    steepness = np.logspace(0, -2, 12)
    weights, losses = rng.normal(size=12), np.empty(steps)
    for step in range(steps):
        losses[step] = 0.5 * (steepness * weights**2).sum() + abs(noise * rng.normal())
        weights = weights - rate * (steepness * weights + 0.1 * noise * rng.normal(size=12))
        if not np.isfinite(weights).all() or abs(weights).max() > 1e60:
            losses[step + 1 :] = math.nan
            break
    return losses


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RateSweep]:
    """Measures a script with ``rate``; its processes are those of ``descend``."""

    def measure(
        rate: float, seed: int = 0, noise: float = 0.02, steps: int = 200, seconds: float = 0.0, **changes: Any
    ) -> RateSweep:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT.format(rate=rate), encoding="utf-8")

        def run_probe(_script: Script, candidate: Candidate, _rule: Rule, folder: Path, **options: Any) -> Probe:
            text = next(iter(candidate.texts.values()), script.read_text())
            written = float(re.search(r"learning_rate=([\d.e+-]+)", text)[1])  # type: ignore[index]
            losses = descend(written, 1000 * seed + options["seed"], steps, noise)
            rows = tuple({"loss": float(value)} for value in losses)
            clock[0] += seconds
            return Probe(folder, 1.0, None, 0.01, True, 0.1, losses=rows, losses_over=(1,) * steps, **changes)

        clock = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(probe_process, "run_probe", run_probe)
        monkeypatch.setattr(recording_trace, "load_recording", lambda _: SimpleNamespace(facts={"sources": {"a": "b"}}))
        return rate_probes.measure_rates(Bench(Script(str(script)), tmp_path, 60.0))

    return measure


def has_finding(sweep: RateSweep) -> bool:
    return CAUSE.find(Trace(facts={"rate": json.loads(rates.rate_json(sweep))})) is not None


def test_a_rate_ten_times_too_small_is_found_with_an_interval(measured: Callable[..., RateSweep]) -> None:
    sweep = measured(0.1)
    assert sweep.gain is not None
    assert sweep.gain.rate == pytest.approx(1.0)
    assert 2 < sweep.gain.low <= sweep.gain.times <= (sweep.gain.high or 0) < 25
    assert not sweep.gain.at_least
    assert sweep.place == "train.py:2"
    assert has_finding(sweep)


def test_a_rate_ten_times_too_large_is_found_with_a_lower_bound(measured: Callable[..., RateSweep]) -> None:
    sweep = measured(10.0)
    assert sweep.gain is not None
    assert sweep.gain.rate == pytest.approx(1.0)
    assert sweep.gain.at_least
    assert sweep.gain.high is None
    assert next(p for p in sweep.points if p.rate == 10.0).loss is None
    assert has_finding(sweep)


def test_a_rate_a_hundred_times_too_small_is_followed_further(measured: Callable[..., RateSweep]) -> None:
    sweep = measured(0.01)
    assert [p.rate for p in sweep.points] == pytest.approx([0.001, 0.01, 0.03, 0.1, 1.0, 10.0])
    assert sweep.gain is not None
    assert sweep.gain.rate == pytest.approx(1.0)


def test_rates_near_the_best_are_no_finding(measured: Callable[..., RateSweep]) -> None:
    """False alarms on 200 simulated sweeps: at most one in a hundred."""
    rng = np.random.default_rng(5)
    found = 0
    for seed in range(200):
        noise, rate = float(np.exp(rng.uniform(-5, -0.5))), float(rng.uniform(0.7, 1.2))
        found += has_finding(measured(rate, seed, noise, steps=60))
    assert found <= 2


def test_noise_alone_is_no_gain(measured: Callable[..., RateSweep]) -> None:
    """The best of several equal rates looks better than it is. Pairs of their own show that it is not."""
    found = [has_finding(measured(1e-9, seed, noise=1.0, steps=60)) for seed in range(30)]
    assert sum(found) == 0


@pytest.mark.parametrize(("seconds", "points", "complete"), [(4.0, 5, True), (9.0, 5, False), (25.0, 2, False)])
def test_what_the_time_did_not_allow_is_not_known(
    seconds: float, points: int, complete: bool, measured: Callable[..., RateSweep]
) -> None:
    """Of processes that take so many seconds, within a minute."""
    sweep = measured(0.1, seconds=seconds)
    assert len(sweep.points) == points
    assert sweep.complete is complete is (sweep.gain is not None)
    assert bool(sweep.notes) is not complete
    assert has_finding(sweep) is complete


def test_a_process_that_the_time_ends_is_no_measurement(measured: Callable[..., RateSweep]) -> None:
    with pytest.raises(InputError, match="give a longer --budget"):
        measured(0.1, steps=40, seconds=100.0)


def test_what_cannot_be_measured_is_one_line(measured: Callable[..., RateSweep]) -> None:
    with pytest.raises(InputError, match="took 40 steps that report a loss, and 60 are needed"):
        measured(0.1, steps=40)
    several = tuple(Origin(("critic", "generator")[i % 2]) for i in range(200))
    with pytest.raises(InputError, match=r"several losses \(critic, generator\)"):
        measured(0.1, origins=several)
    with pytest.raises(InputError, match="the unchanged script does not run"):
        measured(0.1, failed="exit code 1: broken")


def test_a_script_without_a_written_rate_is_one_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import keras\nmodel.fit(x)\n", encoding="utf-8")
    with pytest.raises(InputError, match="its learning rate was not found"):
        rate_probes.measure_rates(Bench(Script(str(script)), tmp_path, time.monotonic() + 60))


def test_steps_to_a_loss() -> None:
    own, fast = np.linspace(2.0, 1.0, 200), np.linspace(2.0, 1.0, 50).repeat(4)[:200]
    assert is_falling(own)
    assert not is_falling(np.full(200, 1.0))
    assert not is_falling(np.full(200, np.nan))
    assert end_loss(np.array([1.0] * 99 + [np.nan])) == math.inf
    found = compare_steps(own, np.concatenate([np.linspace(2.0, 0.5, 100), np.full(100, 0.5)]))
    assert found.loss == pytest.approx(own[-20:].mean())
    assert found.times == pytest.approx(3.0, rel=0.15)
    assert compare_steps(own, fast).times == pytest.approx(1.0, abs=0.1)
    assert compare_steps(own, np.full(200, 2.0)).times == 0.0
    assert first_step_at(own, 3.0) == 10, "the first mean of a twentieth of the steps"


def test_noise_reaches_its_own_mean_and_that_is_no_gain() -> None:
    rng = np.random.default_rng(1)
    assert compare_steps(*rng.normal(1.0, 0.2, size=(2, 200))).times == 0.0


def test_a_fall_in_a_few_steps_is_one() -> None:
    losses = 0.02 + 5 * 0.4 ** np.arange(200) + 0.001 * np.random.default_rng(1).normal(size=200)
    assert is_falling(losses)


def test_a_loss_that_does_not_fall_is_compared_half_way_down_the_other() -> None:
    found = compare_steps(np.full(200, 2.3), np.linspace(2.3, 0.3, 200))
    assert found.at_least
    assert found.own == 200
    assert found.loss == pytest.approx((2.3 + np.linspace(2.3, 0.3, 200)[-20:].mean()) / 2)
    assert found.times == pytest.approx(2.0, rel=0.15)
    assert compare_steps(np.full(200, np.nan), np.linspace(2.3, 0.3, 200)).times == pytest.approx(2.0, rel=0.15)
