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
from slowtrain.model.learning_rates import RateSweep
from slowtrain.report import rates
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.learning_rates import rate_comparison, rate_probes
from slowtrain.verify.learning_rates.steps_to_loss import compare_steps, end_loss, first_step_at, is_falling
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import TRAINING, Candidate, Origin, Probe, Rule, Script

SCRIPT = "import keras\noptimizer = keras.optimizers.SGD(learning_rate={rate!r})\n"
CAUSE = cause_by_id("numerics/slow-convergence")


Losses = Callable[[float, int, int, float], np.ndarray[Any, Any]]


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


def jump(rate: float, seed: int, steps: int, noise: float) -> np.ndarray[Any, Any]:
    """Losses of a network that a rate of 0.1 throws away in its first steps, unless the rate rises slowly."""
    if rate == 0.1:
        thrown = 400 * np.exp(-np.arange(steps) / 3.0) * (np.arange(steps) > 0)
        return 2.3 + thrown + abs(noise * np.random.default_rng(seed).normal(size=steps))
    return descend(min(rate, 0.01), seed, steps, noise)


def warmed_up(rate: float, seed: int, steps: int, noise: float) -> np.ndarray[Any, Any]:
    return jump(rate, seed, steps, noise) if rate != 0.1 else descend(1.0, seed, steps, noise)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RateSweep]:
    """Measures a script with ``rate``; its processes have the losses of ``losses``, or ``warm`` after a warm-up.

    ``batch``: the samples of its steps, 0 if they are not known; ``fixed``: it does not change from outside. A step
    takes ``step_ms``, and ``sample_ms`` for each sample.
    """

    def measure(
        rate: float, seed: int = 0, noise: float = 0.02, steps: int = 200, seconds: float = 0.0,
        losses: Losses = descend, warm: Losses = warmed_up, batch: int = 0, step_ms: float = 1.0,
        sample_ms: float = 0.0, fixed: bool = False, **changes: Any
    ) -> RateSweep:  # fmt: skip
        script = tmp_path / "train.py"
        script.write_text(SCRIPT.format(rate=rate), encoding="utf-8")
        traces: dict[Path, Any] = {}

        def run_probe(_script: Script, candidate: Candidate, _rule: Rule, folder: Path, **options: Any) -> Probe:
            text = next(iter(candidate.texts.values()), script.read_text())
            written = float(re.search(r"learning_rate=.*?([\d.e+-]+)\)", text)[1])  # type: ignore[index]
            asked = (candidate.treatment.rebatch or (batch, batch))[1]
            taken = batch if fixed else asked
            count = min(candidate.treatment.results or steps, steps * max(batch, 1) * 2 // max(taken, 1))
            count = count if batch else steps
            spread = noise * math.sqrt(batch / taken) if batch else noise
            made = (warm if "PolynomialDecay" in text else losses)(
                written, 1000 * seed + options["seed"], count, spread
            )
            rows = tuple({"loss": float(value)} for value in made)
            clock[0] += seconds
            steady = (step_ms + sample_ms * taken) / taken if batch else None
            traces[folder] = SimpleNamespace(
                facts={"sources": {"a": "b"}}, steps=SimpleNamespace(size=np.full(count, taken), place=None), root=""
            )
            return Probe(folder, 1.0, steady, 0.01, True, 0.1, losses=rows, losses_over=(1,) * count, **changes)

        clock = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(probe_process, "run_probe", run_probe)
        monkeypatch.setattr(recording_trace, "load_recording", traces.__getitem__)
        return rate_comparison.measure_rates(Bench(Script(str(script)), tmp_path, 60.0))

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


@pytest.mark.parametrize("count", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_rates_near_the_best_are_no_finding(count: int, measured: Callable[..., RateSweep]) -> None:
    """False alarms on simulated sweeps: at most one in a hundred."""
    rng = np.random.default_rng(5)
    found = 0
    for seed in range(count):
        noise, rate = float(np.exp(rng.uniform(-5, -0.5))), float(rng.uniform(0.7, 1.2))
        found += has_finding(measured(rate, seed, noise, steps=60))
    assert found <= count // 100


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
    assert (rate_probes.OVER_NOTE in sweep.notes) is not complete
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import keras\nmodel.fit(x)\n", "no optimizer of Keras or Optax was found"),
        (
            "import keras\nfrom plans import plan\no = keras.optimizers.Adam(plan())\n",
            "the learning rate in train.py:3 is plan(), and its number was not found",
        ),
        (
            "import keras\na = keras.optimizers.SGD(0.1)\nb = keras.optimizers.Adam(0.2)\n",
            "several learning rates were found (0.1 in train.py:2, 0.2 in train.py:3), and one can be measured",
        ),
        (
            "import argparse, keras\np = argparse.ArgumentParser()\no = keras.optimizers.Adam(p.parse_args().lr)\n",
            "the learning rate in train.py:3 is p.parse_args().lr, and its number was not found",
        ),
    ],
    ids=["no optimizer", "a schedule of another file", "two optimizers", "an option without a default"],
)
def test_a_script_without_one_written_rate_is_one_line(text: str, why: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    (tmp_path / "plans.py").write_text("def plan():\n    return Schedule()\n", encoding="utf-8")
    with pytest.raises(InputError) as raised:
        rate_comparison.measure_rates(Bench(Script(str(script)), tmp_path, time.monotonic() + 60))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_number_that_sets_no_rate_ends_after_the_second_process(measured: Callable[..., RateSweep]) -> None:
    said: list[float] = []

    def same(rate: float, seed: int, steps: int, noise: float) -> np.ndarray[Any, Any]:
        said.append(rate)
        return descend(0.5, seed, steps, noise)

    with pytest.raises(InputError, match=r"the losses are the same whatever number stands at train.py:2"):
        measured(0.1, losses=same)
    assert len(said) == 2


def test_a_script_that_trains_nothing_is_one_line(measured: Callable[..., RateSweep]) -> None:
    with pytest.raises(InputError, match="takes no training step"):
        measured(0.1, steps=0)
    with pytest.raises(InputError, match="its steps report no loss"):
        measured(0.1, steps=0, work=TRAINING)


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


def test_a_jump_at_the_start_is_seen() -> None:
    rng = np.random.default_rng(2)
    assert rate_comparison.has_jump(jump(0.1, 0, 200, 0.1))
    assert rate_comparison.has_jump(np.array([2.0] * 100 + [math.inf] * 100)), "it diverges"
    assert not rate_comparison.has_jump(np.exp(0.3 * rng.normal(size=200)))
    late = np.ones(200)
    late[150] = 50.0
    assert not rate_comparison.has_jump(late), "an outlier later is no jump at the start"


def test_after_a_jump_a_warm_up_is_tried_and_confirmed(measured: Callable[..., RateSweep]) -> None:
    sweep = measured(0.1, losses=jump)
    warm = next(p for p in sweep.points if p.warm_up_steps)
    assert (warm.rate, warm.warm_up_steps) == (0.1, 20)
    assert sweep.gain is not None
    assert (sweep.gain.rate, sweep.gain.warm_up_steps) == (0.1, 20)
    assert has_finding(sweep)
    assert "learning rate 0.1 needs fewer steps after a warm-up of 20 steps" in rates.rate_headline(sweep)


def test_a_warm_up_that_does_not_help_is_a_row_and_no_gain(measured: Callable[..., RateSweep]) -> None:
    sweep = measured(0.1, losses=jump, warm=jump)
    assert len({p.steps for p in sweep.points if p.rate == 0.1}) == 1, "with and without a warm-up"
    assert sum(p.rate == 0.1 for p in sweep.points) == 2
    assert sweep.gain is None or not sweep.gain.warm_up_steps


def test_without_a_jump_no_warm_up_is_tried(measured: Callable[..., RateSweep]) -> None:
    assert not any(p.warm_up_steps for p in measured(0.1).points)


def test_a_larger_batch_is_compared_by_seconds_with_a_scaled_rate(measured: Callable[..., RateSweep]) -> None:
    """A step takes as long with any batch: twice the batch and twice the rate need half of the steps."""
    sweep = measured(0.8, noise=0.002, batch=32)
    found = sweep.batches
    assert found is not None
    assert (found.batch, found.rate, found.scaling, found.complete) == (32, 0.8, "linearly", True)
    assert [(p.batch, p.rate) for p in found.points] == [(32, 0.8), (64, 1.6), (128, 3.2)]
    assert found.gain is not None
    assert (found.gain.batch, found.gain.rate) == (64, 1.6)
    assert 1 < found.gain.low <= found.gain.times <= found.gain.high
    assert 1.5 < found.gain.times < 4
    assert found.gain.samples_times == pytest.approx(2 / found.gain.times)
    own = found.points[0]
    assert own.samples is not None
    assert own.seconds == pytest.approx(own.samples / 32 * 1e-3)
    assert own.loss == pytest.approx(found.loss, rel=0.1)  # of the last twentieth and of the last tenth


def test_if_larger_batches_diverge_a_smaller_one_is_tried(measured: Callable[..., RateSweep]) -> None:
    found = measured(1.2, batch=32).batches
    assert found is not None
    assert [(p.batch, p.rate) for p in found.points] == [(16, 0.6), (32, 1.2), (64, 2.4), (128, 4.8)]
    assert [(p.samples, p.seconds) for p in found.points[2:]] == [(None, None)] * 2
    assert found.gain is None or found.gain.batch == 16


@pytest.mark.parametrize("count", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_equal_batches_are_no_gain(count: int, measured: Callable[..., RateSweep]) -> None:
    """False alarms on simulated comparisons in which no batch is faster."""
    rng = np.random.default_rng(9)
    found = []
    for seed in range(count):
        sweep = measured(float(rng.uniform(0.1, 0.4)), seed, 0.3, batch=32, step_ms=0.0, sample_ms=0.03)
        found.append(sweep.batches is not None and sweep.batches.gain is not None and sweep.batches.gain.times >= 2)
    assert sum(found) <= count // 100


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "do not show how many samples"),
        ({"batch": 32, "fixed": True}, "cannot be changed from outside: 64 samples were requested, the steps took 32"),
        ({"batch": 32, "noise": 1.0, "rate": 1e-9}, "the loss does not fall"),
    ],
    ids=str,
)
def test_batches_that_cannot_be_compared_have_a_reason(
    changes: dict[str, Any], why: str, measured: Callable[..., RateSweep]
) -> None:
    sweep = measured(**{"rate": 0.5, **changes})
    assert sweep.batches is None
    assert any(note.startswith("other batches were not tried") and why in note for note in sweep.notes)


def test_without_time_for_batches_the_rates_are_still_known(measured: Callable[..., RateSweep]) -> None:
    """The own process and three rates, then two batches and their pairs, six seconds each."""
    sweep = measured(0.5, batch=32, seconds=9.0)
    assert sweep.complete
    assert sweep.batches is not None
    assert not sweep.batches.complete
    assert rate_probes.OVER_NOTE in sweep.notes
    assert "it is not known whether another batch than 32" in rates.batch_headline(sweep.batches)


def test_a_loss_that_ends_above_its_start_is_compared_half_way_down_from_the_start() -> None:
    own = np.concatenate([[1.6], np.full(199, 8.0)])
    found = compare_steps(own, np.linspace(1.6, 0.5, 200))
    assert found.at_least
    assert 0.5 < found.loss < 1.6
    assert found.times == pytest.approx(2.0, rel=0.15)
