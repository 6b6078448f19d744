"""Each verdict on losses, from drawn ones."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from slowtrain.model import Effect
from slowtrain.verify.measurement.loss_parity import MIN_COMPARED_STEPS, Parity, loss_parity, weight_parity

N = 50


def drawn(seed: int = 0, *, noise: float = 0.0, shift: float = 0.0, name: str = "loss") -> list[dict[str, float]]:
    """A loss that falls from 2 to 1."""
    draw = random.Random(seed)
    return [{name: (2 - i / N) * (1 + shift) + draw.gauss(0, noise)} for i in range(N)]


def with_nan(at: int) -> list[dict[str, float]]:
    return [{"loss": step["loss"] if i < at else math.nan} for i, step in enumerate(drawn())]


@pytest.mark.parametrize("effect", [*Effect, None])
def test_the_same_bits(effect: Effect | None) -> None:
    assert loss_parity(effect, [drawn(), drawn()], [drawn(), drawn()]) == Parity(
        True, "same", f"is bit-identical over {N} steps"
    )


def test_exact_is_what_two_baselines_differ_by() -> None:
    """A script that is not deterministic."""
    first = [drawn(i, noise=1e-4) for i in range(4)]
    found = loss_parity(Effect.EXACT, first, [drawn(i, noise=1e-4) for i in range(10, 14)])
    assert found.holds
    assert found.loss.startswith("within ")
    assert not loss_parity(Effect.EXACT, first, [drawn(9, noise=5e-3)]).holds


@pytest.mark.parametrize(("kind", "most"), [("steps", 0.01), ("walk", 0.07), ("line", 0.15)])
def test_three_baselines_do_not_show_the_most_that_two_differ_by(kind: str, most: float) -> None:
    """Of runs that all stray alike few are called different."""
    draw = random.Random(1)

    def straying() -> list[dict[str, float]]:
        each = [draw.gauss(0, 1e-6) for _ in range(20)]
        by = {"steps": each, "walk": itertools.accumulate(each), "line": [each[0]] * 20}[kind]
        return [{"loss": 1.0 + one} for one in by]

    several = 200
    found = [
        loss_parity(Effect.EXACT, [straying() for _ in range(3)], [straying() for _ in range(3)])
        for _ in range(several)
    ]
    assert sum(one.holds is False for one in found) <= most * several
    assert all(one.own for one in found)


def test_exact_counts_from_the_nearest_of_all_baselines() -> None:
    """The first of them has no more to say than the others."""
    first = [drawn(), drawn(shift=1e-3), drawn(shift=2e-3)]
    assert loss_parity(Effect.EXACT, first, [drawn(shift=2e-3)]).loss == "same"
    assert loss_parity(Effect.EXACT, first, [drawn(shift=5e-3)]).holds
    assert loss_parity(Effect.EXACT, first, [drawn(shift=-3e-3)]).holds
    assert loss_parity(Effect.EXACT, first, [drawn(shift=9e-3)]).holds is False


@pytest.mark.parametrize("apart", [1e-7, 1e-3])
def test_exact_of_a_deterministic_script_is_to_the_bit(apart: float) -> None:
    found = loss_parity(Effect.EXACT, [drawn(), drawn()], [drawn(shift=apart)])
    assert found.holds is False
    assert found.loss == "differs"
    assert "two baselines differ by 0" in found.says


def test_equivalent_allows_rounding_and_another_order() -> None:
    for shift in (1e-6, -1e-6):
        found = loss_parity(Effect.EQUIVALENT, [drawn()], [drawn(shift=shift)])
        assert found.holds
        assert found.says.startswith(f"differs by 0.0% in the mean of {N} steps, allowed ")
    assert loss_parity(Effect.EQUIVALENT, [drawn(1, noise=0.3)], [drawn(2, noise=0.3)]).holds


def test_a_candidate_does_not_widen_what_is_allowed_to_it() -> None:
    found = loss_parity(Effect.EQUIVALENT, [drawn(1, noise=0.01)], [drawn(2, noise=0.8, shift=0.1)])
    assert found.holds is False
    assert found.says.endswith("allowed 2.3%")


@pytest.mark.parametrize("shift", [0.1, -0.1, 1.0])
def test_equivalent_does_not_allow_another_loss(shift: float) -> None:
    found = loss_parity(Effect.EQUIVALENT, [drawn(1, noise=0.01)], [drawn(2, noise=0.01, shift=shift)])
    assert found.holds is False
    assert "allowed" in found.says


@pytest.mark.parametrize("effect", [Effect.CHANGES_TRAINING, None])
def test_without_a_promise_it_is_told_only(effect: Effect | None) -> None:
    found = loss_parity(effect, [drawn()], [drawn(shift=0.5)])
    assert found.holds
    assert found.loss == "within 0.5"


@pytest.mark.parametrize("effect", [*Effect, None])
def test_losses_that_are_no_numbers(effect: Effect | None) -> None:
    both = loss_parity(effect, [with_nan(20)], [with_nan(20)])
    assert (both.holds, both.loss, both.says) == (True, "same", "is bit-identical over 20 steps")
    assert loss_parity(effect, [drawn()], [with_nan(20)]).holds is False
    assert loss_parity(effect, [with_nan(20)], [drawn()]).holds is False
    assert loss_parity(effect, [with_nan(0)], [with_nan(0)]).holds is None
    # The script's own, for two of its runs differ in it.
    assert loss_parity(effect, [with_nan(20), drawn()], [drawn()]).holds is None


def test_numbers_before_the_first_that_is_none_count() -> None:
    other = [{"loss": step["loss"] + 1} for step in with_nan(20)]
    assert loss_parity(Effect.EXACT, [with_nan(20)], [other]).holds is False
    assert loss_parity(Effect.EQUIVALENT, [with_nan(20)], [other]).holds is False


@pytest.mark.parametrize(
    ("baselines", "candidates"),
    [([], []), ([drawn()], []), ([[]], [[]]), ([drawn()], [[]]), ([drawn()[: MIN_COMPARED_STEPS - 1]], [drawn()])],
)
def test_too_few_to_tell(baselines: list[list[dict[str, float]]], candidates: list[list[dict[str, float]]]) -> None:
    found = loss_parity(Effect.EXACT, baselines, candidates)
    assert (found.holds, found.loss) == (None, "not measured")


def test_which_scalar_is_the_loss() -> None:
    steps = drawn()
    more = [{"accuracy": float(i), "loss": step["loss"]} for i, step in enumerate(steps)]
    assert loss_parity(Effect.EXACT, [steps], [more]).loss == "same"
    assert loss_parity(Effect.EXACT, [steps], [drawn(name="total_loss")]).loss == "same"
    assert loss_parity(Effect.EXACT, [steps], [drawn(name="result")]).loss == "same"
    pairs = [{"result[0]": step["loss"], "result[1]": float(i)} for i, step in enumerate(steps)]
    assert loss_parity(Effect.EXACT, [steps], [pairs]).loss == "same"
    other = [{**step, "result[0]": 2 * step["result[0]"]} for step in pairs]
    assert loss_parity(Effect.EXACT, [pairs], [other]).holds is False
    unknown = [{"a": 1.0, "b": 2.0}] * N
    assert loss_parity(Effect.EXACT, [unknown], [unknown]).holds is None


def test_executions_of_several_batches_are_held_against_their_last() -> None:
    """With ``steps_per_execution=4`` only every fourth step tells its loss."""
    baseline = [{"loss": 1.0 / (i + 1)} for i in range(12)]
    empty: dict[str, float] = {}
    candidate = [row if i % 4 == 3 else empty for i, row in enumerate(baseline)]
    assert loss_parity(Effect.EXACT, [baseline, baseline], [candidate]).holds is True
    shifted = [{k: v * 1.5 for k, v in row.items()} for row in candidate]
    assert loss_parity(Effect.EXACT, [baseline, baseline], [shifted]).holds is False


def ends(moved: float, digest: str = "a", steps: int = 50) -> list[tuple[int, str, float]]:
    return [(5, digest, moved / 10), (steps, digest, moved)]


@pytest.mark.parametrize("effect", [*Effect, None])
def test_the_same_weights(effect: Effect | None) -> None:
    found = weight_parity(effect, [ends(1.0), ends(1.0)], [ends(1.0), ends(1.0)])
    assert (found.holds, found.loss) == (True, "same")
    assert found.says.endswith("the weights after 50 steps are bit-identical")
    assert weight_parity(effect, [ends(1.0)], [ends(1.0, steps=20)[:1]]).says.endswith(
        "after 5 steps are bit-identical"
    )


def test_other_weights() -> None:
    assert weight_parity(Effect.EXACT, [ends(1.0), ends(1.0)], [ends(1.0, "b")]).loss == "differs"
    # Two baselines differ, too: by as much as they do.
    assert weight_parity(Effect.EXACT, [ends(1.0), ends(1.02, "b")], [ends(1.01, "c")]).holds
    assert weight_parity(Effect.EXACT, [ends(1.0), ends(1.02, "b")], [ends(1.2, "c")]).holds is False
    assert weight_parity(Effect.EQUIVALENT, [ends(1.0)], [ends(1.05, "b")]).holds
    assert weight_parity(Effect.EQUIVALENT, [ends(1.0)], [ends(1.2, "b")]).holds is False
    assert weight_parity(Effect.CHANGES_TRAINING, [ends(1.0)], [ends(3.0, "b")]).holds


@pytest.mark.parametrize(
    ("one", "other"),
    [([], ends(1.0)), (ends(0.0), ends(0.0, "b")), (ends(math.nan), ends(1.0)), (ends(1.0)[:1], ends(1.0)[1:])],
)
def test_weights_that_tell_nothing(one: list[tuple[int, str, float]], other: list[tuple[int, str, float]]) -> None:
    assert weight_parity(Effect.EXACT, [one], [other]).holds is None
