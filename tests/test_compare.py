"""Comparing runs: differences within the noise are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slowtrain.compare import compare
from slowtrain.model import Category
from slowtrain.report import comparison
from slowtrain.trace import Steps, Trace


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
    found = compare(trace(10, 6, 1), trace(5, 1, 2), ("a", "b"))
    assert found.step.real
    assert found.rows[0].name == "input"
    assert found.rows[0].difference_ms == pytest.approx(-5, rel=0.2)
    assert comparison.render(found).startswith("B is ")


def test_the_same_run_twice_differs_by_noise_only() -> None:
    false = sum(
        compare(trace(10, 6, 2 * seed), trace(10, 6, 2 * seed + 1), ("a", "b")).step.real for seed in range(100)
    )
    assert false <= 15  # 95 % of differences of noise lie within; 5 expected of 100


def test_too_few_steps_cannot_tell() -> None:
    found = compare(trace(10, 6, 1, steps=4), trace(5, 1, 2, steps=4), ("a", "b"))
    assert not found.step.real
    assert "cannot tell" in comparison.render(found)


def test_a_run_without_steps_cannot_tell() -> None:
    empty = replace(Trace(), steps=Steps())
    assert "cannot tell" in comparison.render(compare(empty, trace(5, 1, 1), ("a", "b")))
