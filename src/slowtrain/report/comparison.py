"""Two runs side by side as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slowtrain.model.answers.cure_proof import Change, Comparison
from slowtrain.number_text import format_number
from slowtrain.report import wording

MIN_PART_SHARE = 1e-3  # of the longer step: smaller parts are not shown
MIN_NOISE_SHARE = 1e-4  # of the figure: three digits of it do not show less
MIN_PHASE_SHARE = 0.01  # of the longer run: smaller phases are one row


def comparison_text(comparison: Comparison) -> str:
    """The step, each category, and the phases of the runs. A change within the noise is shown as noise."""
    first, second = comparison.names
    unit = "ms per 1,000 samples" if comparison.samples else "ms a step"
    lines = [
        _verdict_line(comparison),
        "",
        f"A {first}",
        f"B {second}",
        *_script_names(comparison),
        "",
        f"{unit:<20}{'A':>18}{'B':>18}{'B - A':>10}",
    ]
    least = MIN_PART_SHARE * max(comparison.step.before_ms, comparison.step.after_ms)
    shown = [c for c in comparison.rows if max(c.before_ms, c.after_ms) >= least]
    lines += [_change_row(change) for change in (comparison.step, *shown)]
    lines += _run_table(comparison)
    return "\n".join(lines) + "\n"


def _script_names(comparison: Comparison) -> list[str]:
    if comparison.scripts is None:
        return []
    return [
        "",
        "These are runs of two scripts, {} and {}: what differs need not be one change.".format(*comparison.scripts),
    ]


def _verdict_line(comparison: Comparison) -> str:
    step = comparison.step
    if not step.before_ms or not step.after_ms:
        return "cannot tell: one of the runs has no steady steps"
    if not math.isfinite(step.before_noise_ms + step.after_noise_ms):
        return "cannot tell: too few steady steps to know their noise"
    sizes = comparison.samples
    each = (
        f", sample by sample (a step of A takes {format_number(sizes[0])} samples, one of B {format_number(sizes[1])})"
        if sizes
        else ""
    )
    if not step.real:
        return f"a step of B differs from one of A by no more than the noise of the two runs{each}"
    ratio = step.before_ms / step.after_ms
    words = f"{ratio:.2f}x as fast as" if ratio > 1 else f"slower: it takes {1 / ratio:.2f}x as long as"
    return f"a step of B is {words} one of A{each}"


def _change_row(change: Change) -> str:
    sign = "+" if change.difference_ms > 0 else ""
    words = f"{sign}{format_number(change.difference_ms)}" if change.real else "noise"
    before = _figure_with_noise(change.before_ms, change.before_noise_ms)
    after = _figure_with_noise(change.after_ms, change.after_noise_ms)
    return f"{wording.category_words(change.name)[0]:<20}{before:>18}{after:>18}{words:>10}"


def _figure_with_noise(ms: float, noise: float) -> str:
    noise = 0.0 if noise < MIN_NOISE_SHARE * ms else noise
    return f"{format_number(ms)} ± {format_number(noise, 2)}" if math.isfinite(noise) else f"{format_number(ms)}"


def _run_table(comparison: Comparison) -> list[str]:
    """The whole runs in seconds. Empty if neither was timed."""
    whole = _sum_row("whole run", comparison.run)
    if not max(whole[1:]):
        return []
    large = [r for r in comparison.run if max(r[1], r[2]) >= MIN_PHASE_SHARE * max(whole[1:])]
    rest = [r for r in comparison.run if r not in large]
    rows = [whole, *((wording.phase_words(name)[0], a, b) for name, a, b in large)]
    if rest:
        rows.append(_sum_row("all others", rest))
    lines = ["", f"{'s of the run':<20}{'A':>18}{'B':>18}{'B - A':>10}"]
    lines += [f"{n:<20}{a / 1e3:>18.2f}{b / 1e3:>18.2f}{(b - a) / 1e3:>+10.2f}" for n, a, b in rows]
    return [*lines, "", "Each run was timed once: how much of its phases is noise cannot be told."]


def _sum_row(name: str, rows: Sequence[tuple[str, float, float]]) -> tuple[str, float, float]:
    return name, sum(r[1] for r in rows), sum(r[2] for r in rows)
