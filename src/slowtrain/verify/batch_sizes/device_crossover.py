"""Measures one script on two devices: short probes at several batches, alternating between the devices.

Lines go through processes. A process is one value, because its steps are not independent. Times spread in proportion to
themselves, so each counts by the inverse of its square. Intervals come from draws of Student's distribution around the
fit, with a fixed seed.
"""

from __future__ import annotations

import math
import re
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.model import Category
from slowtrain.model.measurements import Crossover, Fit, Overtaking, Range, Side, Timing
from slowtrain.number_text import format_count
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.verify.batch_sizes.batch_probe import UNTRAINED, BatchProbes, step_batch
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Rule, Treatment

DRAW_COUNT = 4000
DRAW_SEED = 20_240_817
INTERVAL_LEVELS = (0.025, 0.975)
LINE_PIECES = 60  # segments of a line in a chart

Draws = NDArray[np.float64]


def fit_timings(timings: Sequence[Timing]) -> tuple[Fit, Draws] | None:
    """The line, and draws of its two parameters; None with fewer than two batches or three processes."""
    batch = np.array([t.batch for t in timings], dtype=float)
    ms = np.array([t.step_ms for t in timings])
    if len(np.unique(batch)) < 2 or len(ms) < 3:
        return None
    design = np.stack([np.ones_like(batch), batch], axis=1) / ms[:, None]
    found, *_ = np.linalg.lstsq(design, np.ones_like(ms), rcond=None)
    rest = np.ones_like(ms) - design @ found
    freedom = len(ms) - 2
    spread = float(rest @ rest) / freedom
    shape = np.linalg.inv(design.T @ design) * spread
    # Each side has its own draws. With the same numbers both would err together, and their crossing would seem certain.
    draws = (
        found
        + _student_draws(freedom, 2, zlib.crc32(timings[0].setting.encode()))
        @ np.linalg.cholesky(shape + 1e-18 * np.eye(2)).T
    )
    off = max(abs(ms[batch == b].mean() - (found[0] + found[1] * b)) / ms[batch == b].mean() for b in np.unique(batch))
    fixed, each = (_draw_range(float(found[i]), draws[:, i]) for i in (0, 1))
    along = [float(b) for b in np.linspace(0, batch.max(), LINE_PIECES + 1)]
    line = tuple((b, _draw_range(float(found[0] + found[1] * b), draws[:, 0] + draws[:, 1] * b)) for b in along)
    return Fit(fixed, each, float(off), len(ms), line), draws


def crossing_batch(one: Draws, other: Draws, flat: tuple[float, float], steep: tuple[float, float], most: int) -> Range:
    """The batch from which ``one``, the flatter line, is lower: 0 if it always is, infinite if it never is.

    "Always" holds up to ``most``, the largest measured batch. If it is unknown which line is flatter, neither says what
    comes beyond.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (one[:, 0] - other[:, 0]) / (other[:, 1] - one[:, 1])
    lower = (one[:, 0] < other[:, 0]) & (one[:, 0] + one[:, 1] * most < other[:, 0] + other[:, 1] * most)
    found = np.where(other[:, 1] <= one[:, 1], np.where(lower, 0.0, np.inf), np.maximum(found, 0.0))
    gap = steep[1] - flat[1]
    value = max((flat[0] - steep[0]) / gap, 0.0) if gap > 0 else math.inf
    low, high = (float(np.quantile(found, level, method="nearest")) for level in INTERVAL_LEVELS)
    return Range(value, min(low, value), max(high, value))


def compare_at_batch(batch: int, sides: tuple[Sequence[Timing], Sequence[Timing]]) -> Overtaking | None:
    """Compares the sides at one batch by its own processes; spreads come from all batches of a side."""
    at = [[t for t in side if t.batch == batch] for side in sides]
    if not all(at):
        return None
    means = [float(np.mean([t.step_ms for t in side])) for side in at]
    fast, slow = (0, 1) if means[0] <= means[1] else (1, 0)
    steps = [_draw_means(means[i], len(at[i]), [(t.batch, t.step_ms) for t in sides[i]], 10 + i) for i in (fast, slow)]
    ready = [float(np.mean([_one_time_cost_ms(t) for t in at[i]])) for i in (fast, slow)]
    starts = [
        _draw_means(ready[k], len(at[i]), [(t.batch, _one_time_cost_ms(t)) for t in sides[i]], 20 + i)
        for k, i in enumerate((fast, slow))
    ]
    speedup = _draw_range(means[slow] / means[fast], steps[1] / np.maximum(steps[0], 1e-9))
    if any(len(side) < 2 for side in at):
        return Overtaking(batch, at[fast][0].setting, Range(speedup.value, 0.0, math.inf), None)
    needed = starts[0] - starts[1]
    gained = steps[1] - steps[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.where(needed <= 0, 0.0, np.where(gained > 0, needed / gained, np.inf))
    gap = means[slow] - means[fast]
    value = max((ready[0] - ready[1]) / gap, 0.0) if gap > 0 else math.inf
    return Overtaking(batch, at[fast][0].setting, speedup, _draw_range(value, count))


def _one_time_cost_ms(timing: Timing) -> float:
    """The one-time cost of a process: the time until its first step ended, minus one steady step."""
    return 1e3 * timing.start_s + timing.first_ms - timing.step_ms


def start_seconds(timings: Sequence[Timing]) -> Range:
    """Seconds until the first step, over all processes of a side."""
    values = [t.start_s for t in timings]
    mean = float(np.mean(values))
    if len(values) < 2:
        return Range(mean, 0.0, math.inf)
    draws = mean + _student_draws(len(values) - 1, 1)[:, 0] * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return _draw_range(mean, draws)


def _draw_means(mean: float, count: int, rows: Sequence[tuple[int, float]], stream: int) -> Draws:
    """Draws of a mean of ``count`` processes, with the relative spread of all batches."""
    groups: dict[int, list[float]] = {}
    for batch, value in rows:
        groups.setdefault(batch, []).append(value)
    logs = [np.log(np.maximum(v, 1e-9)) for v in groups.values() if len(v) > 1]
    freedom = sum(len(v) - 1 for v in logs)
    if not freedom:
        return np.full(DRAW_COUNT, mean)
    spread = math.sqrt(sum(float(((v - v.mean()) ** 2).sum()) for v in logs) / freedom)
    drawn: Draws = mean * np.exp(_student_draws(freedom, 1, stream)[:, 0] * spread / math.sqrt(count))
    return drawn


def _student_draws(freedom: int, width: int, stream: int = 0) -> Draws:
    chance = np.random.default_rng((DRAW_SEED, stream))
    scale = np.sqrt(freedom / np.maximum(chance.chisquare(freedom, DRAW_COUNT), 1e-9))
    drawn: Draws = chance.standard_normal((DRAW_COUNT, width)) * scale[:, None]
    return drawn


def _draw_range(value: float, draws: Any) -> Range:
    low, high = (float(np.quantile(draws, level, method="nearest")) for level in INTERVAL_LEVELS)
    return Range(value, min(low, value), max(high, value))


SHORT_RULE = Rule(seconds=1.0, steps=12)
DEEP_RULE = Rule(seconds=2.0, steps=60, windows=True)  # the recorder's own windows open after some steps
DEFAULT_ROUNDS = 3
BATCH_SPREAD_FACTOR = 4  # factor above and below the script's own batch, if no batches are asked for
_SETTING = re.compile(r"cpu(?::threads=(\d{1,4}))?\Z")
# JAX fails if its GPU plugin is installed and sees no GPU, unless JAX is told not to look for one.
CPU_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
# The last two set XLA's pool of the CPU client, in which JAX computes. Older versions use the first name.
CPU_THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "NPROC", "PJRT_NPROC")
MAX_OFF_LINE_FACTOR = 1.2  # times the line: a mean further off is reported
MIN_CROSSOVER_PROBE_S = 5.0
STEP_PARTS = {
    "input": (Category.INPUT,),
    "copies": (Category.CONVERT, Category.FEED, Category.READBACK),
    "launch": (Category.DISPATCH, Category.HOST_OP, Category.COMPILE),
    "Python": (Category.PYTHON, Category.CALLBACK, Category.GC),
    "computing": (Category.DEVICE, Category.COLLECTIVE, Category.COLLECTIVE_WAIT, Category.OTHER_PROCESS),
    "unattributed": (Category.UNATTRIBUTED,),
}


def parse_settings(text: str) -> tuple[tuple[str, Treatment], tuple[str, Treatment]]:
    """Parses ``gpu,cpu`` or ``cpu:threads=1,cpu:threads=2`` into two settings.

    Raises ``InputError``, or ``EnvironmentMissing`` if there is no GPU.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if len(names) != 2 or names[0] == names[1]:
        raise InputError(f"--devices {text}: give two, such as gpu,cpu or cpu:threads=1,cpu:threads=2")
    one, other = (_treatment(name, text) for name in names)  # an unknown setting is reported even if there is no GPU
    if "gpu" in names:
        gpus = Gpus()
        if not gpus.handles:
            raise EnvironmentMissing(
                f"no GPU can be measured here ({gpus.unmeasured or 'the driver names none'}); slowtrain doctor "
                "shows details, and --devices cpu:threads=1,cpu:threads=2 compares settings of the CPU"
            )
    return one, other


def _treatment(name: str, text: str) -> tuple[str, Treatment]:
    if name == "gpu":
        return name, Treatment()
    found = _SETTING.match(name)
    if found is None or found[1] == "0":
        raise InputError(f"--devices {text}: {name} is not a device; write gpu, cpu or cpu:threads=N")
    environment = dict(CPU_ENVIRONMENT)
    if found[1]:
        environment |= dict.fromkeys(CPU_THREAD_VARIABLES, found[1])
    return name, Treatment(environment=environment)


def measure_crossover(bench: Bench, devices: str, batches: Sequence[int], rounds: int = DEFAULT_ROUNDS) -> Crossover:
    """Measures the crossover. Raises ``InputError`` if the script cannot be measured on one of the two."""
    begun = time.monotonic()
    pair = parse_settings(devices)
    sizing = BatchProbes(bench)
    deep = _run_deep_probes(sizing, pair)
    wanted = sorted(
        set(batches or (max(sizing.own // BATCH_SPREAD_FACTOR, 1), sizing.own, sizing.own * BATCH_SPREAD_FACTOR))
    )
    timings, notes = _run_rounds(sizing, pair, wanted, rounds, asked=bool(batches))
    sides, draws = [], []
    for name, _ in pair:
        mine = tuple(t for t in timings if t.setting == name)
        found = fit_timings(mine)
        draws.append(found[1] if found is not None else None)
        fit = found[0] if found is not None else None
        first = sum(t.first_ms for t in mine) / len(mine)
        on = side_files.computing_device(deep[name].facts)
        sides.append(Side(name, mine, fit, start_seconds(mine), first, _step_parts(deep[name]), on))
        if fit is not None and fit.off_share > MAX_OFF_LINE_FACTOR - 1:
            notes.append(
                f"{name}: steps differ by up to {fit.off_share:.0%} from a straight line; use the measured batches"
            )
    winner, batch = None, None
    if draws[0] is not None and draws[1] is not None:
        lines = [(s.fit.fixed_ms.value, s.fit.per_sample_ms.value) for s in sides if s.fit is not None]
        flat, steep = (0, 1) if lines[0][1] <= lines[1][1] else (1, 0)
        winner = sides[flat].name
        most = max(t.batch for t in timings)
        batch = crossing_batch(draws[flat], draws[steep], lines[flat], lines[steep], most)  # type: ignore[arg-type]
    overtaken = [compare_at_batch(b, (sides[0].timings, sides[1].timings)) for b in wanted]
    return Crossover(
        bench.script.target,
        (bench.script.target, *bench.script.arguments),
        side_files.source_sha256(deep[pair[0][0]].facts),
        sizing.own,
        tuple(sides),
        winner,
        batch,
        tuple(o for o in overtaken if isinstance(o, Overtaking)),
        _device_name(),
        tuple(notes),
        time.monotonic() - begun,
    )


def _run_deep_probes(sizing: BatchProbes, pair: Sequence[tuple[str, Treatment]]) -> dict[str, Trace]:
    """A deep probe on each device, which also gives the script's own batch."""
    found: dict[str, Trace] = {}
    own = sizing.own
    for name, treatment in pair:
        batch = own if sizing.given else None
        trace = _probe_trace(sizing, batch, f"{name}: the unchanged script", treatment, DEEP_RULE)
        _require_device(trace, name, sizing.bench.script.target)
        own = step_batch(trace) or own
        found[name] = trace
    if not own:
        raise InputError(
            f"the batch of {sizing.bench.script.target} is unknown, because its steps do not show it; "
            "write {batch} where its arguments give the batch size"
        )
    sizing.own = own
    return found


def _step_parts(trace: Trace) -> dict[str, float]:
    """The parts of a step in ms."""
    parts = {part: sum(map(trace.mean, some)) for part, some in STEP_PARTS.items()}
    if trace.device is not None and trace.device.kind != "CPU":
        parts["copies"] = sum(c.exposed_ms for c in trace.device.copies.values())
    return parts


def _require_device(trace: Trace, name: str, target: str) -> None:
    if name == "gpu" and not trace.on_accelerator:
        raise InputError(f"{target} saw no GPU in its probe, so nothing can be compared; slowtrain doctor shows why")


def _run_rounds(
    sizing: BatchProbes, pair: Sequence[tuple[str, Treatment]], batches: Sequence[int], rounds: int, *, asked: bool
) -> tuple[list[Timing], list[str]]:
    """Runs both settings alternately at each batch, in a changing order; a round that has begun is completed.

    A larger batch than the script's own that nobody ``asked`` for is left out with a note if it cannot run.
    """
    timings: list[Timing] = []
    notes: list[str] = []
    left = list(batches)
    taken_s = 0.0
    for number in range(rounds):
        if number and sizing.bench.left_s < max(taken_s, MIN_CROSSOVER_PROBE_S):
            notes.append(f"the time ended after {number} of {format_count(rounds, 'round')}; give a longer --budget")
            break
        begun = time.monotonic()
        for batch in tuple(left):
            try:
                for name, treatment in pair if number % 2 == 0 else reversed(pair):
                    timings.append(_time_process(sizing, name, treatment, batch, number + 1))
            except InputError as error:
                if asked or number or batch <= sizing.own:
                    raise
                left.remove(batch)
                notes.append(f"a batch of {batch:,} was left out: {error}")
        taken_s = time.monotonic() - begun
    return [t for t in timings if t.batch in left], notes


def _time_process(sizing: BatchProbes, name: str, treatment: Treatment, batch: int, number: int) -> Timing:
    """Times one process. Raises ``InputError`` unless its steps take that many samples."""
    own = batch == sizing.own and not sizing.given
    what = f"{name} at batch {batch:,}, round {number}"
    trace = _probe_trace(sizing, None if own else batch, what, treatment, SHORT_RULE)
    seen, target = step_batch(trace), sizing.bench.script.target
    if seen != batch:
        why = "its batch cannot be changed from outside; write {batch} where its arguments give the batch size"
        why = why if seen in (0, sizing.own) else "its data has no more samples; give smaller batches with --batches"
        raise InputError(f"a batch of {batch:,} was requested, but {target} took {seen:,}: {why}")
    first = trace.steps
    return Timing(name, batch, float(first.start_ms[0]) / 1e3, float(first.ms[0]), trace.step_ms)


def _probe_trace(sizing: BatchProbes, batch: int | None, what: str, treatment: Treatment, rule: Rule) -> Trace:
    probe = sizing.run(batch, what, treatment, rule)
    target = sizing.bench.script.target
    if probe.failed:
        raise InputError(f"{target} failed in a probe ({what}): {probe.failed}")
    trace = recording_trace.load_recording(probe.folder)
    if not len(trace.steps) and not probe.stopped:  # a probe that was cut short may still have begun to train
        raise InputError(f"{target} {UNTRAINED}")
    if not trace.steps.steady.any():
        raise InputError(f"{target} took no steady steps in a probe ({what}); give more data or a longer --budget")
    return trace


def _device_name() -> str:
    devices = Gpus().facts()["devices"]
    return str(devices[0]["name"]) if devices else ""
