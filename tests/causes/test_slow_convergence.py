"""numerics/slow-convergence: false alarms and power on drawn losses, and what its drawn traces do not hold."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import replace

from slowtrain.causes import cause_by_id
from slowtrain.columns.spans import Event
from slowtrain.columns.steps import Steps
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Signal
from slowtrain.trace import Trace
from slowtrain.trace.signals import loss_curve
from slowtrain.trace.signals.loss_curve import LossShape, build_loss_curve, step_losses

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CLINIC = Path(__file__).parents[2] / "clinic"
CAUSE = cause_by_id("numerics/slow-convergence")
RUNS, MAX_FALSE_SHARE = 200, 0.01


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    if not CLINIC.is_dir():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("simulated_losses")
    finally:
        sys.path.remove(str(CLINIC))


def trace_of(run: Any, **facts: Any) -> Trace:
    """A recording with these losses, for which no other rate was measured."""
    source = "Sequential 1" if run.in_fit else "train_step"
    series = {"source": source, "name": "loss", "last_step": int(run.points[-1, 0]), "points": run.points.tolist()}
    return Trace(
        signals=frozenset({Signal.LOSS, Signal.STEPS}),
        steps=Steps(source="fit" if run.in_fit else "train_step"),
        events=(Event("loop", "fit", 0.0, 1e3, {}),) if run.in_fit else (),
        facts={"loss_series": {"others": 0, "series": [series]}, **facts},
    )


@pytest.mark.parametrize("seed", range(5))
def test_healthy_noise_is_no_finding(seed: int, simulation: ModuleType) -> None:
    """One in a hundred of 200 runs of 13 kinds is allowed; of 12,000 it was seven."""
    runs = list(simulation.healthy_runs(seed, RUNS))
    found = [run.kind for run in runs if diagnose_trace(trace_of(run), [CAUSE]).diagnoses]
    assert len(found) <= MAX_FALSE_SHARE * RUNS, found


@pytest.mark.parametrize(
    ("kind", "in_fit", "least"),
    [
        ("far_too_small", True, 0.4),
        ("far_too_small", False, 0.2),
        ("far_too_large", True, 0.8),
        ("growing", True, 0.95),
        ("oscillating", True, 0.6),
    ],
)
def test_a_rate_that_is_far_off_is_seen(kind: str, in_fit: bool, least: float, simulation: ModuleType) -> None:
    """In runs with enough losses. The noise of batches, of up to half the loss, hides many a straight line."""
    rng = np.random.default_rng(7)
    runs = [simulation.simulated_run(getattr(simulation, kind), rng, in_fit=in_fit) for _ in range(RUNS)]
    judged = [run for run in runs if build_loss_curve("loss", run.points, in_fit=in_fit) is not None]
    found = [run for run in judged if CAUSE.find(trace_of(run)) is not None]
    assert len(judged) > RUNS / 2
    assert len(found) >= least * len(judged)


@pytest.mark.parametrize(
    ("kind", "first"), [("far_too_small", False), ("oscillating", False), ("far_too_large", True), ("growing", True)]
)
def test_a_run_that_learns_nothing_comes_first(kind: str, first: bool, simulation: ModuleType) -> None:
    """Before causes that save time."""
    rng = np.random.default_rng(7)
    traces = (trace_of(simulation.simulated_run(getattr(simulation, kind), rng, in_fit=True)) for _ in range(RUNS))
    found = [CAUSE.spoils_in(trace, finding) for trace in traces if (finding := CAUSE.find(trace)) is not None]
    assert found
    assert found.count(first) >= 0.8 * len(found)


@pytest.mark.parametrize("kind", ["far_too_large", "growing"])
def test_only_keras_own_loop_is_known_to_train_on_a_loss_that_should_fall(kind: str, simulation: ModuleType) -> None:
    """An agent's loss grows while it learns."""
    rng = np.random.default_rng(3)
    run = simulation.simulated_run(getattr(simulation, kind), rng, in_fit=False)
    assert CAUSE.find(trace_of(run)) is None


def test_losses_that_show_nothing_leave_it_unchecked_and_never_healthy(simulation: ModuleType) -> None:
    rng = np.random.default_rng(0)
    for kind, in_fit in ((simulation.already_trained, True), (simulation.exponential_fall, True)):
        found = diagnose_trace(trace_of(simulation.simulated_run(kind, rng, in_fit=in_fit)), [CAUSE])
        assert (found.diagnoses, found.healthy) == ((), ())
        assert found.unchecked[0].missing == ("rates",)


@pytest.mark.parametrize("points", [[], [[1, 2.0, 1]], [[i + 1, 2.0, 1] for i in range(60)]], ids=len)
def test_too_few_steps_leave_it_unchecked(points: list[list[float]]) -> None:
    trace = parse_drawing(CAUSE.fires[0])
    series = {"source": "train_step", "name": "loss", "last_step": len(points), "points": points}
    trace = replace(trace, facts={"loss_series": {"others": 0, "series": [series] if points else []}})
    trace = replace(trace, signals=trace.signals - {Signal.RATES})
    found = diagnose_trace(trace, [CAUSE])
    assert (found.diagnoses, found.healthy) == ((), ())
    assert [u.cause for u in found.unchecked] == [CAUSE.id]


def test_means_since_the_epoch_began_give_back_the_losses() -> None:
    rng = np.random.default_rng(1)
    losses = rng.gamma(2.0, size=90)
    epochs = losses.reshape(3, 30)
    means = (np.cumsum(epochs, axis=1) / np.arange(1, 31)).ravel()
    over = np.tile(np.arange(1, 31), 3)
    assert step_losses(means.tolist(), over.tolist()) == pytest.approx(losses)
    assert step_losses(losses.tolist(), [1] * 90) == pytest.approx(losses)
    assert step_losses(losses.tolist(), [0] * 90) == pytest.approx(losses), "nobody knows what they are"


def test_stretches_are_means_of_all_steps_that_keras_averaged() -> None:
    """Few points are enough, because each mean counts every step since the last point."""
    losses = np.linspace(2.0, 1.5, 1000)
    means = np.cumsum(losses) / np.arange(1, 1001)
    seen = np.arange(0, 1000, 37)
    rows = np.stack([seen + 1, means[seen], seen + 1], axis=1)
    curve = build_loss_curve("loss", rows, in_fit=True)
    assert curve is not None
    assert curve.means == pytest.approx([losses[a : a + 100].mean() for a in range(0, 1000, 100)], rel=2e-3)
    assert curve.shape is LossShape.STRAIGHT


def test_a_loss_of_nobody_knows_what_is_not_judged() -> None:
    """A train_step of one's own may return a mean or the loss of one batch."""
    rows = np.stack([np.arange(1, 401), np.linspace(2.0, 1.5, 400), np.zeros(400)], axis=1)
    assert build_loss_curve("loss", rows, in_fit=True) is None


def test_several_losses_are_not_judged_unless_one_was_a_trial(simulation: ModuleType) -> None:
    run = next(simulation.healthy_runs(0, 1))
    whole = trace_of(run)
    series = whole.facts["loss_series"]["series"][0]
    for points, is_judged in ((series["points"][:1], True), (series["points"], False)):
        other = {"source": "other", "name": "loss", "last_step": 5, "points": points}
        facts = {"loss_series": {"others": 0, "series": [series, other]}}
        assert (loss_curve.read_loss_curve(replace(whole, facts=facts)) is not None) is is_judged
    assert loss_curve.read_loss_curve(replace(whole, facts={"loss_series": {"others": 1, "series": [series]}})) is None


def rates(**changes: Any) -> dict[str, Any]:
    gain = {"rate": 0.01, "times": 8.0, "low": 6.0, "high": 11.0, "pairs": 3, "at_least": False}
    found = {"rate": 0.001, "steps": 400, "loss": 0.4, "complete": True, "gain": gain}
    return {"rate": {**found, **changes}}


def test_measured_rates_decide_whatever_the_losses_show(simulation: ModuleType) -> None:
    rng = np.random.default_rng(2)
    run = simulation.simulated_run(simulation.far_too_small, rng, in_fit=True)
    seen = replace(trace_of(run, **rates()), signals=frozenset({Signal.RATES}))
    one = diagnose_trace(seen, [CAUSE]).diagnoses[0]
    assert one.evidence.says == (
        "measured over 400 steps: a learning rate of 0.001 needs 8 times as many steps to a loss of 0.4 as one of 0.01 "
        "(95 %: 6 to 11)"
    )
    assert one.saving.speedup == 1, "a step takes as long"
    assert [str(p.effect) for p in one.prescriptions] == ["changes training"]
    healthy = replace(trace_of(run, **rates(gain=None)), signals=frozenset({Signal.RATES}))
    assert diagnose_trace(healthy, [CAUSE]).healthy == (CAUSE.id,)


def test_a_rate_that_never_had_the_loss_is_worth_at_least_so_much() -> None:
    gain = {"rate": 1e-4, "times": 9.0, "low": 7.5, "high": None, "pairs": 3, "at_least": True}
    trace = replace(parse_drawing(CAUSE.fires[0]), facts=rates(gain=gain, rate=0.1))
    found = CAUSE.find(trace)
    says = CAUSE.evidence(trace, found).says
    assert "needs at least 9 times as many steps" in says
    assert "(95 %: over 7.5)" in says


def test_a_measurement_whose_time_ended_leaves_it_unchecked(simulation: ModuleType) -> None:
    run = simulation.simulated_run(simulation.already_trained, np.random.default_rng(4), in_fit=True)
    found = diagnose_trace(trace_of(run, **rates(gain=None, complete=False)), [CAUSE])
    assert (found.diagnoses, found.healthy, found.unchecked[0].missing) == ((), (), ("rates",))


@pytest.mark.parametrize("broken", [{"gain": {}}, {"steps": None}, {"loss": "low"}, {"batches": 1}], ids=str)
def test_a_damaged_measurement_is_none(broken: dict[str, Any]) -> None:
    trace = replace(parse_drawing(CAUSE.quiet[-2]), facts=rates(**broken))
    assert CAUSE.find(trace) is None


def course(means: list[float], **changes: Any) -> Any:
    """A curve of 1,000 steps with these means in its ten stretches."""
    first = means[0]
    known = {"first": first, "highest": first, "highest_later": first, "swings": 0, "in_fit": True, **changes}
    return loss_curve.LossCurve("loss", 1000, tuple(means), **known)


@pytest.mark.parametrize(
    ("curve", "says"),
    [
        (
            course([2.4, 2.1, 2.02, 2.0, 2.01, 2.0, 1.99, 2.0, 2.01, 2.0]),
            "loss stays at 2 from step 200 of 1,000 on, on",
        ),
        (course([2.3] * 10), "in the run, loss stays at 2.3, on a plateau"),
        (course([1.0, 0.5, 1.6, 0.5, 1.6, 0.6, 1.0, 0.6, 0.5, 1.0], swings=2), "loss oscillated: 2 times it rose"),
        (course([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.0]), "loss diverged: it rose from 1 to 9"),
    ],
    ids=["plateau", "flat", "oscillation", "divergence"],
)
def test_beside_measured_rates_the_course_of_the_run_is_named(curve: Any, says: str) -> None:
    trace = replace(parse_drawing(CAUSE.fires[0]), facts=rates())
    found: Any = CAUSE.find(trace)
    assert says in CAUSE.evidence(trace, structs.replace(found, curve=curve)).says


def test_a_loss_that_falls_to_the_end_is_on_no_plateau() -> None:
    for falling in (np.linspace(2.4, 1.4, 10), 2.4 * 0.6 ** np.arange(10)):
        assert course(falling.tolist()).plateau_start is None


def test_a_plateau_alone_is_no_finding() -> None:
    """The loss of a model that is trained already looks the same."""
    assert course([2.3] * 10).shape is LossShape.UNCLEAR


def test_a_warm_up_and_a_batch_that_were_measured_are_cures() -> None:
    gain = {"rate": 0.1, "times": 8.0, "low": 6.0, "high": 11.0, "pairs": 3, "at_least": False, "warm_up_steps": 40}
    batch = {"batch": 256, "rate": 0.2, "times": 1.9, "low": 1.6, "high": 2.3, "samples_times": 1.1, "pairs": 3}
    about = rates(rate=0.1, gain=gain, batches={"batch": 64, "gain": batch})
    trace = replace(parse_drawing(CAUSE.fires[0]), facts=about, signals=frozenset({Signal.RATES}))
    one = diagnose_trace(trace, [CAUSE]).diagnoses[0]
    assert "0.1 needs 8 times as many steps to a loss of 0.4 as after a warm-up of 40 steps" in one.evidence.says
    warm_up, larger = (p.says for p in one.prescriptions)
    assert warm_up == "let the learning rate rise from 0 to 0.1 in the first 40 steps"
    assert larger == (
        "then batches of 256 with a learning rate of 0.2: batches of 64 need 1.9 times as many seconds to the same "
        "loss (95 %: 1.6 to 2.3)"
    )
    assert {str(p.effect) for p in one.prescriptions} == {"changes training"}
