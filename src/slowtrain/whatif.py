"""Replays a trace with remedies in place, and says what the run would then take.

The replay is step by step: each steady step is its categories in milliseconds, of which a
remedy takes some away, and its input, which is made either before the rest of the step or
beside it. Remedies are replayed together, so that two causes which claim the same
millisecond are paid for it once. On a host whose cores both train and make input, no step
gets shorter than its processor time over the cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slowtrain.model import Category, Saving
from slowtrain.trace import Floats, Trace

SPREAD = (0.7, 1.15)  # of the milliseconds saved: what cures gave against what replays said (docs/scoreboard.md)
MOST = 0.98  # of a step or a run: the most that any replay takes away


@dataclass(frozen=True)
class Drop:
    """These milliseconds of a mean step would not happen. ``cpu`` is the part of them that is processor time."""

    ms: Mapping[Category, float]
    cpu: float = 1.0
    spread: tuple[float, float] = SPREAD


@dataclass(frozen=True)
class Supply:
    """Input would be made in ``factor`` of the time a batch takes now, and, if ``beside``, while the step computes.

    ``cpu_factor`` is what its processor time would be of what it is now.
    """

    factor: float = 1.0
    beside: bool = False
    cpu_factor: float = 1.0
    spread: tuple[float, float] = SPREAD


@dataclass(frozen=True)
class Skip:
    """These milliseconds of the whole run, outside the steps or of their number, would not happen."""

    ms: float
    spread: tuple[float, float] = SPREAD


@dataclass(frozen=True)
class Stretch:
    """The same samples in fewer, longer steps: ``steps`` of the present number, each ``step_ms`` long."""

    steps: float
    step_ms: float
    spread: tuple[float, float] = SPREAD


Remedy = Drop | Supply | Skip | Stretch


@dataclass(frozen=True)
class Replay:
    """A run with remedies in place: mean steady step (per present step's samples), and the whole run."""

    step_ms: float
    run_ms: float


@dataclass(frozen=True)
class Present:
    """What a replay starts from, in ms a step."""

    columns: Mapping[Category, Floats] = field(default_factory=dict)
    supply_ms: float = 0.0
    supply_cpu_ms: float = 0.0
    beside: bool = False
    cpu_ms: float | None = None
    cores: float = 1.0


def present(trace: Trace) -> Present:
    """The steady steps as they are, with the time a batch takes to make (``supply_ms``)."""
    steady = trace.steps.steady
    columns = {c: col[steady] for c, col in trace.categories.items()}
    wait = trace.mean(Category.INPUT)
    rest = max(trace.step_ms - wait, 0.0)
    pipe = trace.pipeline
    beside = bool(pipe and pipe.nodes and any(n.asynchronous for n in pipe.nodes) and pipe.exposed_ms < 0.5 * max(pipe.ms, 1e-9))
    # Made beside the step and yet waited for: a batch takes as long as the whole step.
    supply = wait + rest if beside and wait > 0 else wait
    cpu = trace.facts.get("cpu_ms_per_step")
    return Present(columns, supply, pipe.ms if pipe else wait, beside, float(cpu) if cpu else None, trace.cores)


def replay(trace: Trace, remedies: Iterable[Remedy]) -> Replay:
    """The step and the run with all ``remedies`` at once."""
    remedies = list(remedies)
    now = present(trace)
    step = _step(now, trace, remedies) if trace.step_ms else 0.0
    steps_ms = float(trace.steps.ms[trace.steps.steady | trace.steps.windowed].sum()) if len(trace.steps) else 0.0
    shrunk = step
    for remedy in remedies:
        if isinstance(remedy, Stretch):
            shrunk = min(shrunk, remedy.steps * remedy.step_ms)
    run = trace.run_ms - (steps_ms * (1 - shrunk / trace.step_ms) if trace.step_ms else 0.0)
    run -= sum(r.ms for r in remedies if isinstance(r, Skip))
    return Replay(max(shrunk, (1 - MOST) * trace.step_ms), max(run, (1 - MOST) * trace.run_ms))


def _step(now: Present, trace: Trace, remedies: list[Remedy]) -> float:
    drops: dict[Category, float] = {}
    cpu_saved = 0.0
    for remedy in remedies:
        if isinstance(remedy, Drop):
            for category, ms in remedy.ms.items():
                drops[category] = max(drops.get(category, 0.0), ms)
                cpu_saved += ms * remedy.cpu
    n = int(trace.steps.steady.sum())
    rest, wait = np.zeros(n), now.columns.get(Category.INPUT, np.zeros(n))
    for category, column in now.columns.items():
        mean = float(column.mean()) if n else 0.0
        kept = max(1 - drops.get(category, 0.0) / mean, 0.0) if mean > 0 else 1.0
        if category is Category.INPUT:
            wait = column * kept
        else:
            rest = rest + column * kept
    supplies = [r for r in remedies if isinstance(r, Supply)]
    if not supplies:
        return float((rest + wait).mean()) if n else 0.0
    factor = min(s.factor for s in supplies)
    beside = now.beside or any(s.beside for s in supplies)
    made = now.supply_ms * factor
    shape = wait / max(float(wait.mean()), 1e-9) if wait.any() else np.ones(n)
    if beside:
        # Buffers smooth the difference between steps: the mean rate of the slower side decides.
        waits = np.full(n, max(made - float(rest.mean()), 0.0))
    else:
        waits = shape * made
    step = float((rest + waits).mean())
    if beside and now.cpu_ms is not None:
        cpu = now.cpu_ms - cpu_saved - now.supply_cpu_ms * (1 - min(s.cpu_factor for s in supplies))
        step = max(step, min(cpu / now.cores, float((rest + wait).mean())))
    return step


def anywhere(trace: Trace, ms: float, first: Sequence[Category] = (), spread: tuple[float, float] = SPREAD) -> Drop:
    """A ``Drop`` of ``ms`` a mean step that lie in ``first``, and beyond those in all categories by their size.

    For work whose own spans hold others (a callback that reads back, a nested ``predict``).
    """
    taken: dict[Category, float] = {}
    left = min(ms, MOST * trace.step_ms)
    for category in first:
        taken[category] = min(left, trace.mean(category))
        left -= taken[category]
    others = {c: trace.mean(c) - taken.get(c, 0.0) for c in trace.categories}
    total = sum(others.values())
    if left > 0 and total > 0:
        for category, size in others.items():
            taken[category] = taken.get(category, 0.0) + left * size / total
    return Drop(taken, spread=spread)


def price(trace: Trace, remedies: Iterable[Remedy], scope: str) -> Saving:
    """What ``remedies`` together would save, of a ``step`` or of the ``run``, with its range."""
    remedies = list(remedies)
    after = replay(trace, remedies)
    before, later = (trace.step_ms, after.step_ms) if scope == "step" else (trace.run_ms, after.run_ms)
    saved = max(before - later, 0.0)
    low = min((r.spread[0] for r in remedies), default=1.0)
    high = max((r.spread[1] for r in remedies), default=1.0)

    def speedup(ms: float) -> float:
        return before / max(before - ms, (1 - MOST) * before) if before else 1.0

    return Saving(scope, before, before - saved, speedup(saved * low), speedup(min(saved * high, MOST * before)))
