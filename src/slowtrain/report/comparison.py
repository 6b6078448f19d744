"""Two runs side by side as text."""

from __future__ import annotations

import math

from slowtrain.figures import plain
from slowtrain.model.proof import Change, Comparison


def render(comparison: Comparison) -> str:
    """The step first, then each category; a change within the noise is said to be none."""
    first, second = comparison.names
    lines = [
        _verdict(comparison.step),
        "",
        f"A {first}",
        f"B {second}",
        "",
        f"{'ms a step':<14}{'A':>18}{'B':>18}{'B - A':>10}",
    ]
    lines += [_row(change) for change in (comparison.step, *comparison.rows)]
    return "\n".join(lines) + "\n"


def _verdict(step: Change) -> str:
    if not step.before_ms or not step.after_ms:
        return "cannot tell: one of the runs has no steady steps"
    if not math.isfinite(step.before_noise_ms + step.after_noise_ms):
        return "cannot tell: too few steady steps to know their noise"
    if not step.real:
        return "no difference beyond the noise of the two runs"
    ratio = step.before_ms / step.after_ms
    return f"B is {ratio:.2f}x as fast as A" if ratio > 1 else f"B is {1 / ratio:.2f}x slower than A"


def _row(change: Change) -> str:
    said = f"{change.difference_ms:+.3g}" if change.real else "noise"
    before, after = _figure(change.before_ms, change.before_noise_ms), _figure(change.after_ms, change.after_noise_ms)
    return f"{change.name:<14}{before:>18}{after:>18}{said:>10}"


def _figure(ms: float, noise: float) -> str:
    return f"{plain(ms)} ± {plain(noise, 2)}" if math.isfinite(noise) else f"{plain(ms)}"
