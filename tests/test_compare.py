"""Comparing runs: differences within the noise are none."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from slowtrain.columns.steps import Steps
from slowtrain.compare import compare_runs
from slowtrain.model import Attribution, Category, Part
from slowtrain.report import proof
from slowtrain.trace import Trace


def trace(step_ms: float, input_ms: float, seed: int, steps: int = 400, drift: float = 0.0) -> Trace:
    """A run with autocorrelated noise of 10 %."""
    rng = np.random.default_rng(seed)
    noise = np.convolve(rng.normal(0, 0.1, steps + 9), np.ones(10) / 10, "valid")
    ms = step_ms * (1 + noise) + drift * np.arange(steps)
    end = np.cumsum(ms)
    waits = np.minimum(input_ms * (1 + noise), ms)
    return Trace(
        steps=Steps("fit", end - ms, end, np.ones(steps, dtype=bool), np.zeros(steps, dtype=bool)),
        categories={Category.INPUT: waits, Category.DEVICE: ms - waits},
    )


def test_a_real_change_is_found_in_its_category() -> None:
    found = compare_runs(trace(10, 6, 1), trace(5, 1, 2), ("a", "b"))
    assert found.step.real
    assert found.rows[0].name == "input"
    assert found.rows[0].difference_ms == pytest.approx(-5, rel=0.2)
    assert re.match(r"a step of B is (1\.9|2\.[01])\dx as fast as one of A\n", proof.comparison_text(found))
    back = proof.comparison_text(compare_runs(trace(5, 1, 2), trace(10, 6, 1), ("a", "b")))
    assert re.match(r"a step of B is slower: it takes (1\.9|2\.[01])\dx as long as one of A\n", back)


def sized(found: Trace, samples: int) -> Trace:
    return structs.replace(found, steps=structs.replace(found.steps, size=np.full(len(found.steps), samples)))


def test_larger_batches_are_held_against_smaller_ones_sample_by_sample() -> None:
    """The cure of a small batch: a step takes longer, and each of its samples much less."""
    found = compare_runs(sized(trace(10, 2, 1), 32), sized(trace(20, 4, 2), 256), ("a", "b"))
    assert found.samples is not None
    assert list(found.samples) == [32.0, 256.0]
    assert found.step.before_ms == pytest.approx(10 / 32 * 1000, rel=0.05)
    assert found.step.after_ms == pytest.approx(20 / 256 * 1000, rel=0.05)
    assert sum(r.after_ms for r in found.rows) == pytest.approx(found.step.after_ms)
    said = proof.comparison_text(found)
    assert re.match(
        r"a step of B is (3\.[89]|4\.[012])\dx as fast as one of A, "
        r"sample by sample \(a step of A takes 32 samples, one of B 256\)\n",
        said,
    )
    assert "ms per 1,000 samples" in said


@pytest.mark.parametrize("samples", [(32, 32), (32, 0), (0, 256)])
def test_steps_of_as_many_samples_or_of_nobody_knows_how_many_are_held_against_each_other(
    samples: tuple[int, int],
) -> None:
    found = compare_runs(sized(trace(10, 2, 1), samples[0]), sized(trace(20, 4, 2), samples[1]), ("a", "b"))
    assert found.samples is None
    assert "ms a step" in proof.comparison_text(found)


def test_the_whole_runs_stand_below() -> None:
    """A cure outside the steps shows there alone."""
    first = structs.replace(
        trace(10, 6, 1), run=Attribution(9000.0, (Part("steps", 4000.0, 0.44), Part("validation", 5000.0, 0.56)))
    )
    second = structs.replace(
        trace(10, 6, 2), run=Attribution(4010.0, (Part("steps", 4000.0, 0.99), Part("epoch", 10.0, 0.01)))
    )
    found = compare_runs(first, second, ("a", "b"))
    assert found.run == (("validation", 5000.0, 0.0), ("epoch", 0.0, 10.0), ("steps", 4000.0, 4000.0))
    said = proof.comparison_text(found)
    assert re.search(r"^whole run +9\.00 +4\.01 +-4\.99$", said, re.MULTILINE)
    assert re.search(r"^validation +5\.00 +0\.00 +-5\.00$", said, re.MULTILINE)
    assert re.search(r"^all others +0\.00 +0\.01 +\+0\.01$", said, re.MULTILINE)


def test_the_same_run_twice_differs_by_noise_only() -> None:
    false = sum(
        compare_runs(trace(10, 6, 2 * seed), trace(10, 6, 2 * seed + 1), ("a", "b")).step.real for seed in range(100)
    )
    assert false <= 15  # 95 % of differences of noise lie within; 5 expected of 100


def test_too_few_steps_cannot_tell() -> None:
    found = compare_runs(trace(10, 6, 1, steps=4), trace(5, 1, 2, steps=4), ("a", "b"))
    assert not found.step.real
    assert "cannot tell" in proof.comparison_text(found)


def test_a_run_without_steps_cannot_tell() -> None:
    empty = structs.replace(Trace(), steps=Steps())
    assert "cannot tell" in proof.comparison_text(compare_runs(empty, trace(5, 1, 1), ("a", "b")))


def test_figures_are_written_out_and_noise_that_is_none_is_none() -> None:
    found = compare_runs(trace(2000, 1900, 1), trace(10, 1, 2), ("a", "b"))
    shown = proof.comparison_text(replace(found, rows=(replace(found.rows[0], before_noise_ms=2.7e-10),)))
    assert not re.search(r"\de[+-]\d", shown)
    assert re.search(r"input +1,[89]\d0 ± 0 .* -1,[89]\d0\n", shown)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ((["python", "a.py", "-x"], ["python", "b.py"]), "two scripts, a.py and b.py"),
        ((["python", "-m", "p.a"], ["python", "p/a.py"]), "two scripts, p.a and a.py"),
        ((["python", "a.py"], ["python", "other/a.py", "-x"]), ""),
        (([], ["python", "b.py"]), ""),
    ],
)
def test_runs_of_two_scripts_are_said_to_be_that(argv: tuple[list[str], list[str]], told: str) -> None:
    sides = [structs.replace(trace(10, 6, 1), facts={"launch": {"argv": a}}) for a in argv]
    shown = proof.comparison_text(compare_runs(sides[0], sides[1], ("a", "b")))
    assert ("two scripts" in shown) is bool(told)
    assert told in shown
