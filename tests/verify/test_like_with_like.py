"""Which losses are held against which, by the functions that they come from; drawn ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from slowtrain.model import Effect
from slowtrain.model.measurements import Attempt
from slowtrain.verify.measurement import candidate_proof
from slowtrain.verify.measurement.loss_parity import matched_parity
from slowtrain.verify.measurement.paired_trial import Trial
from slowtrain.verify.measurement.probe_process import Origin, Probe

N = 80
D, G = Origin("d_step", 40), Origin("g_step", 52)  # eagerly: each where its gradient is taken
GRAPH_D, GRAPH_G = Origin("d_step"), Origin("g_step")
Weights = tuple[tuple[int, str, float], ...]


def probe(*streams: tuple[Origin, float | None], seed: int = 0, ms: float = 1.0, weights: Weights = ()) -> Probe:
    """Turns of a loop, in each of which every one of ``streams`` tells about so much, or nothing."""
    draw = random.Random(seed)
    rows, origins = [], []
    for _ in range(N // len(streams)):
        for origin, mean in streams:
            rows.append({} if mean is None else {"loss" if origin.at else "result": mean + draw.gauss(0, 0.01)})
            origins.append(origin)
    return Probe(Path(), ms, None, 1.0, False, 0.1, tuple(rows), weights, origins=tuple(origins))


EAGER = probe((D, 1.6), (G, 0.8), ms=4.0)


def test_two_losses_of_a_turn_are_not_held_against_one() -> None:
    """Before, every gradient was a step; after it every call of the one function that is a graph."""
    found = matched_parity(Effect.EQUIVALENT, [EAGER, EAGER], [probe((GRAPH_D, 1.6), seed=1)] * 2)
    assert (found.holds, found.loss) == (None, "not measured")
    assert found.says == "a step is an iteration of d_step and g_step before and of d_step after"


def test_it_is_kept_and_said() -> None:
    pairs = tuple((EAGER, probe((GRAPH_D, 1.6), seed=i)) for i in range(4))
    kept: Attempt = candidate_proof.judge_trial("cause", "says", Effect.EQUIVALENT, None, Trial("step", pairs))
    assert kept.kept
    assert kept.verdict is not None
    assert kept.verdict.loss == "not measured"
    assert kept.remark.startswith("loss could not be compared: a step is an iteration of d_step and g_step before")


@pytest.mark.parametrize("other", [(GRAPH_G, 0.8), (Origin("g_step", 52, counts=False), 0.8)])
def test_each_loss_is_held_against_the_same_one(other: tuple[Origin, float]) -> None:
    """As graphs, or one of them still eager."""
    found = matched_parity(Effect.EQUIVALENT, [EAGER, EAGER], [probe((GRAPH_D, 1.6), other, seed=1)])
    assert found.holds is True
    assert found.says.startswith("of d_step differs by ")
    assert "; of g_step differs by " in found.says


@pytest.mark.parametrize("streams", [((GRAPH_D, 1.6), (GRAPH_G, 1.2)), ((GRAPH_D, 1.2), (GRAPH_G, 1.2))])
def test_a_loss_that_has_changed_is_told(streams: tuple[tuple[Origin, float], ...]) -> None:
    """Also where the mean over both is what it was."""
    found = matched_parity(Effect.EQUIVALENT, [EAGER, EAGER], [probe(*streams, seed=1)])
    assert (found.holds, found.loss) == (False, "differs")
    assert ("of d_step" in found.says) == (streams[0][1] != 1.6)
    assert "of g_step differs by 50" in found.says


def test_two_steps_that_became_one() -> None:
    fused = probe((Origin("train_step"), 2.4))
    found = matched_parity(Effect.EQUIVALENT, [EAGER], [fused])
    assert (found.holds, found.says) == (
        None,
        "a step is an iteration of d_step and g_step before and of train_step after",
    )
    inline = probe((Origin("main", 8), 1.6), (Origin("main", 90), 0.8))
    says = matched_parity(Effect.EQUIVALENT, [inline], [fused]).says
    assert says == "a step is an iteration of 2 gradients in main before and of train_step after"


@pytest.mark.parametrize(("mean", "holds"), [(1.6, True), (1.2, False)])
def test_lines_that_became_a_function(mean: float, holds: bool) -> None:
    """A single loss is the same one, whatever it is called."""
    before = probe((Origin("<module>", 30), 1.6))
    assert matched_parity(Effect.EQUIVALENT, [before], [probe((Origin("train_step"), mean), seed=1)]).holds is holds
    both = [probe((Origin("main", 30), 1.6), (GRAPH_G, 0.8))]
    assert (
        matched_parity(Effect.EQUIVALENT, both, [probe((Origin("step"), mean), (GRAPH_G, 0.8), seed=1)]).holds is holds
    )


def test_steps_of_keras_have_no_name() -> None:
    keras = Probe(Path(), 1.0, None, 1.0, False, 0.1, tuple({"loss": 1.6} for _ in range(N)))
    assert matched_parity(Effect.EQUIVALENT, [keras], [keras]).loss == "same"
    assert matched_parity(Effect.EQUIVALENT, [keras], [probe((Origin("step"), 1.2))]).holds is False
    found = matched_parity(Effect.EQUIVALENT, [EAGER], [keras])
    assert found.holds is None
    assert found.says.endswith("before and of Keras' own loop after")


def test_a_few_steps_by_the_way_change_nothing() -> None:
    def begun(one: Probe) -> Probe:
        first = probe((Origin("check", 3), 9.0))
        return Probe(
            Path(),
            1.0,
            None,
            1.0,
            False,
            0.1,
            (*first.losses[:2], *one.losses),
            origins=(*first.origins[:2], *one.origins),
        )

    step, graph = probe((D, 1.6)), probe((GRAPH_D, 1.6), seed=1)
    assert matched_parity(Effect.EQUIVALENT, [begun(step)], [graph]).holds is True
    assert (
        matched_parity(Effect.EQUIVALENT, [begun(EAGER)], [probe((GRAPH_D, 1.6), (GRAPH_G, 0.8), seed=1)]).holds is True
    )


def later(one: Probe) -> Probe:
    """A second part of the training, of which the slower one has not come to see anything."""
    after = probe((Origin("tune"), 0.1))
    return Probe(
        Path(), 1.0, None, 1.0, False, 0.1, (*one.losses, *after.losses), origins=(*one.origins, *after.origins)
    )


def test_as_far_as_all_have_come() -> None:
    assert (
        matched_parity(Effect.EQUIVALENT, [EAGER], [later(probe((GRAPH_D, 1.6), (GRAPH_G, 0.8), seed=1))]).holds is True
    )


MOVED = ((5, "a", 0.2), (50, "b", 2.0))
FURTHER = ((5, "c", 0.4), (50, "d", 3.2))


@pytest.mark.parametrize("tells", [None, 0.8])
def test_weights_after_as_many_steps_of_another_kind_tell_nothing(tells: float | None) -> None:
    """Five steps are five turns here and two and a half there."""
    before = probe((D, 1.6), (G, 0.8), weights=MOVED)
    found = matched_parity(Effect.EQUIVALENT, [before], [probe((GRAPH_D, None), weights=FURTHER)])
    assert (found.holds, found.says) == (None, "a step is an iteration of d_step and g_step before and of d_step after")
    beside = (Origin("g_step", 52, counts=False), tells)
    assert matched_parity(Effect.EQUIVALENT, [before], [probe((GRAPH_D, None), beside, weights=FURTHER)]).holds is None


@pytest.mark.parametrize(("weights", "holds"), [(MOVED, True), (FURTHER, False)])
@pytest.mark.parametrize("tells", [None, 1.6])
def test_weights_stand_for_a_loss_that_is_no_longer_told(weights: Weights, holds: bool, tells: float | None) -> None:
    before = probe((D, 1.6), (G, 0.8), weights=MOVED)
    after = probe((GRAPH_D, tells), (GRAPH_G, None), weights=weights)
    found = matched_parity(Effect.EQUIVALENT, [before, before], [after])
    assert found.holds is holds
    assert "weights after 50 steps" in found.says


def test_a_flood_of_functions_stays_short() -> None:
    def many(name: Callable[[int], str]) -> Probe:
        return probe(*((Origin(name(i)), 1.0) for i in range(10)))

    found = matched_parity(Effect.EQUIVALENT, [many(lambda i: f"{i}" * 1000)], [many(lambda i: f"other{i}")])
    assert found.holds is None
    assert found.says.count("7 more") == 2
    assert len(found.says) < 300
