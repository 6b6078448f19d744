"""What ``slowtrain rate`` answers, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from slowtrain.model.learning_rates import BatchGain, BatchPoint, BatchSweep, RateGain, RatePoint, RateSweep
from slowtrain.report import rates

GAIN = RateGain(0.01, 8.2, 6.1, 11.3, 3, at_least=False)
BATCHES = BatchSweep(
    batch=64,
    rate=0.01,
    scaling="by the square root",
    loss=0.12,
    points=(
        BatchPoint(64, 0.01, 0.12, 24_640, 1.2, 25_600),
        BatchPoint(128, 0.0141, 0.13, 27_000, 0.7, 51_200),
        BatchPoint(256, 0.02, None, None, None, 20_000),
        BatchPoint(512, 0.0283, None, None, None, 0),
    ),
    gain=BatchGain(128, 0.0141, 1.7, 1.4, 2.2, 1.1, 3),
    complete=True,
)
SWEEP = RateSweep(
    script="train.py",
    rate=0.001,
    place="train.py:12",
    steps=400,
    loss=0.4123,
    points=(
        RatePoint(0.0001, 0.91, None),
        RatePoint(0.001, 0.4123, 385),
        RatePoint(0.003, 0.3, 140),
        RatePoint(0.01, 0.12, 44),
        RatePoint(0.1, None, None),
    ),
    gain=GAIN,
    complete=True,
    seeded=True,
    measured_on={"kind": "CPU", "name": "AMD EPYC"},
    notes=("the time ended before all processes ran; give a longer --budget",),
    batches=BATCHES,
)


def test_the_gain_comes_first_with_its_interval() -> None:
    first = " ".join(rates.rate_text(SWEEP).partition("\n\n")[0].split())
    assert first == (
        "learning rate 0.01 needs fewer steps than 0.001: 8.2 times as many at the script's own rate (95 %: 6.1 to 11, "
        "3 pairs of runs with other seeds)"
    )


def test_each_rate_has_a_row_and_the_own_one_a_mark() -> None:
    rows = [line.split() for line in rates.rate_text(SWEEP).split("\n\n")[1].splitlines()]
    assert rows == [
        ["rate", "loss", "at", "the", "end", "steps", "to", "0.412"],
        ["0.0001", "0.91", "over", "400"],
        ["0.001", "0.4123", "385", "now"],
        ["0.003", "0.3", "140"],
        ["0.01", "0.12", "44"],
        ["0.1", "not", "finite", "over", "400"],
    ]


def test_it_says_that_another_rate_changes_training_and_what_is_missing() -> None:
    text = " ".join(rates.rate_text(SWEEP).split())
    assert "another rate changes training" in text
    assert "give a longer --budget" in text
    assert "changes training" not in rates.rate_text(replace(SWEEP, gain=None, batches=None))


def test_without_a_gain_no_rate_is_praised() -> None:
    first = rates.rate_text(replace(SWEEP, gain=None, notes=()), width=100).splitlines()[0]
    assert first == "no other learning rate is clearly better than 0.001 in 400 steps"


def test_what_the_time_did_not_allow_is_not_fine() -> None:
    first = rates.rate_text(replace(SWEEP, gain=None, complete=False), width=100).splitlines()[0]
    assert first == "it is not known whether another learning rate is better than 0.001, because the time ended"


def test_a_lower_bound_is_named_as_one() -> None:
    text = rates.gain_text(replace(GAIN, high=None, at_least=True))
    assert text == "at least 8.2 times as many at the script's own rate (over 6.1 in 3 pairs of runs)"


def test_json_has_the_whole_answer() -> None:
    document = json.loads(rates.rate_json(SWEEP))
    assert document["schema"] == "slowtrain.rate/1"
    gain = {"rate": 0.01, "times": 8.2, "low": 6.1, "high": 11.3, "pairs": 3, "at_least": False, "warm_up_steps": 0}
    assert document["gain"] == gain
    assert document["points"][-1] == {"rate": 0.1, "loss": None, "steps": None, "warm_up_steps": 0}
    assert document["batches"]["points"][0]["seconds"] == 1.2


def test_batches_stand_below_with_samples_and_seconds() -> None:
    parts = rates.rate_text(SWEEP).split("\n\n")
    assert " ".join(parts[2].split()) == (
        "a batch of 128 with learning rate 0.0141 needs fewer seconds than 64, and 1.1 times the samples: 1.7 times as "
        "many with the script's own batch (95 %: 1.4 to 2.2, 3 pairs of runs with other seeds)"
    )
    assert [line.split() for line in parts[3].splitlines()] == [
        ["batch", "rate", "loss", "samples", "to", "0.12", "seconds", "to", "0.12"],
        ["64", "0.01", "0.12", "24,640", "1.2"],
        ["128", "0.0141", "0.13", "27,000", "0.7"],
        ["256", "0.02", "-", "over", "20,000", "-"],
        ["512", "0.0283", "not", "finite", "over", "0", "-"],
    ]
    assert "was scaled by the square root" in " ".join(parts[4].split())


def test_only_the_scripts_own_batch_and_rate_are_marked() -> None:
    own = replace(BATCHES, points=(BatchPoint(64, 0.001, 0.41, 24_640, 1.2, 25_600),))
    assert " now" in rates.rate_text(replace(SWEEP, batches=own)).split("\n\n")[3]


def test_batches_that_are_not_faster_or_not_known_are_not_praised() -> None:
    assert rates.batch_headline(replace(BATCHES, gain=None)) == "no other batch than 64 needs clearly fewer seconds"
    assert "it is not known" in rates.batch_headline(replace(BATCHES, gain=None, complete=False))
    assert rates.rate_text(replace(SWEEP, batches=None)).count("batch") == 0


def test_a_warm_up_has_a_row_and_a_headline() -> None:
    warm = RatePoint(0.001, 0.2, 90, warm_up_steps=40)
    text = rates.rate_text(
        replace(SWEEP, points=(*SWEEP.points, warm), gain=replace(GAIN, rate=0.001, warm_up_steps=40))
    )
    assert " ".join(text.partition("\n\n")[0].split()) == (
        "learning rate 0.001 needs fewer steps after a warm-up of 40 steps: 8.2 times as many without it (95 %: 6.1 to "
        "11, 3 pairs of runs with other seeds)"
    )
    assert "90 after a warm-up of 40" in text
    assert text.count(" now") == 1
