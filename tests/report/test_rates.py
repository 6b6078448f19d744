"""What ``slowtrain rate`` answers, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from slowtrain.model.measurements import RateGain, RatePoint, RateSweep
from slowtrain.report import rates

GAIN = RateGain(0.01, 8.2, 6.1, 11.3, 3, at_least=False)
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
    assert "changes training" not in rates.rate_text(replace(SWEEP, gain=None))


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
    assert document["gain"] == {"rate": 0.01, "times": 8.2, "low": 6.1, "high": 11.3, "pairs": 3, "at_least": False}
    assert document["points"][-1] == {"rate": 0.1, "loss": None, "steps": None}
