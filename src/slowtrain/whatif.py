"""Replays a trace with remedies applied, and predicts the duration of the step and of the run.

The replay works step by step. Each steady step consists of its categories in milliseconds, of which a remedy removes
some, and of its input, which is made either before the rest of the step or in parallel with it. Remedies are replayed
together, so that two causes that claim the same millisecond count it once. On a host whose cores both train and make
input, no step gets shorter than its processor time divided by the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct, field

from slowtrain.columns.arrays import Floats
from slowtrain.columns.input_pipeline import Pipeline, largest_parallelism
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed
from slowtrain.trace.signals.device.op_work import PYTHON_COLD_SHARE, cold_cache_ms, splittable_op_ms

DEFAULT_SPREAD = (0.7, 1.15)  # of the saved milliseconds, if a remedy has no range of its own: assumed, not measured
MIN_INPUT_LIMIT_SHARE = 0.02  # of a step: a shorter wait does not show that input is the slower side
# Minimum share of the processor time that makes input, and minimum share of a step that its own threads wait for a
# core. If both are exceeded, ops wait most of the time that they seem to compute. In recordings of clinic/ whose steps
# wait for no batch, steps that shared their cores with their input had 0.57 to 1.99 and 0.32 to 0.91; the next one had
# 0.37 and 0.
MIN_CROWDING_SHARE = 0.3
# The time between two calls, and the share of a long step that disappears with it
# (:func:`slowtrain.trace.signals.device.op_work.cold_cache_ms`).
BETWEEN_CALLS_SHARES = {
    **dict.fromkeys((Category.PYTHON, Category.CONVERT, Category.FEED), PYTHON_COLD_SHARE),
    **dict.fromkeys((Category.READBACK, Category.CALLBACK), PYTHON_COLD_SHARE),
    **dict.fromkeys((Category.COMPILE, Category.GC), 0.0),
}
# Of the function calls for a batch: if fewer are left, the rest no longer depends on the cost of starting calls.
MAX_CALLS_LEFT_SHARE = 0.5
# If Python made the input in another thread, or very many calls did, the rest of a step gets shorter without the GIL,
# its place in the executors' queues and its cache misses. The gain exceeds what any step shows, because no step runs
# undisturbed: the duration of the quietest tenth of steps, times 0.51 to 0.97 in clinic/'s thirteen pairs.
QUIET_STEP_FACTOR = 0.7
MAX_INPUT_LEFT_SHARE = (
    0.3  # of making input: such a small rest cannot be distinguished from the step's own processor time
)
MIN_QUIET_SHARE = 0.4  # a 10th percentile far below the mean shows that steps differ, not that they are disturbed
MAX_SAVED_SHARE = 0.996  # of a step or a run: the most that a replay removes


class Drop(Struct, frozen=True):
    """Removes these milliseconds from a mean step. ``cpu``: the share of them that is processor time."""

    ms: Mapping[Category, float]
    cpu: float = 1.0
    spread: tuple[float, float] = DEFAULT_SPREAD


class Supply(Struct, frozen=True):
    """Makes input in ``factor`` of its present time per batch and, if ``overlapped``, while the step computes.

    ``pipeline``: the changed input pipeline; its stages then replace ``factor``. ``work``: the share of their present
    computing that the producing threads still do (a ``pipeline`` tells that itself); what they no longer do does not
    disturb the step. ``share``: the share of steps that gain, which is all but the first epoch's if a cache has to be
    filled. ``added_ms``: work that moves from the input into the step. ``lock``: Python that makes the input delays the
    step by the GIL, although its batch is ready. ``nested``: no data sets are created per batch, whose cost the nodes
    do not show. ``reads``: threads still read and parse elements for each batch, so no step computes alone.
    """

    factor: float = 1.0
    overlapped: bool = False
    pipeline: Pipeline | None = None
    work: float = 1.0
    share: float = 1.0
    added_ms: float = 0.0
    lock: bool = False
    nested: bool = False
    reads: bool = False
    spread: tuple[float, float] = DEFAULT_SPREAD


class Skip(Struct, frozen=True):
    """Removes these milliseconds from the whole run, outside the steps or by fewer steps."""

    ms: float
    spread: tuple[float, float] = DEFAULT_SPREAD


class Stretch(Struct, frozen=True):
    """The same samples in fewer, longer steps: ``steps`` of the present number, each ``step_ms`` long."""

    steps: float
    step_ms: float
    spread: tuple[float, float] = DEFAULT_SPREAD


Remedy = Drop | Supply | Skip | Stretch


class Replay(Struct, frozen=True):
    """A run with remedies applied: mean steady step (per samples of a present step), and the whole run."""

    step_ms: float
    run_ms: float


class Present(Struct, frozen=True):
    """The start of a replay, in ms per step.

    A batch takes ``exposed_ms`` in the step's own thread, after ``ahead_ms`` of the slowest stage that works ahead.
    ``scale``: ratio of these measured times to the pipeline model's, for the nodes in ``slow``, because the model does
    not contain the cost of starting calls and of waiting for a core.
    """

    columns: Mapping[Category, Floats] = field(default_factory=dict)
    exposed_ms: float = 0.0
    ahead_ms: float = 0.0
    scale: float = 1.0
    slow: frozenset[int] = frozenset()
    cpu_ms: float | None = None
    cores: float = 1.0


def present_run(trace: Trace) -> Present:
    """The present steady steps, with the time that a batch takes to make."""
    steady = trace.steps.steady
    columns = {c: _scale_to_mean(col[steady], trace.mean(c)) for c, col in trace.categories.items()}
    wait, step = trace.mean(Category.INPUT), trace.step_ms
    pipe = trace.pipeline
    modelled, ahead = (pipe.exposed_ms, pipe.ahead_ms) if pipe else (0.0, 0.0)
    if input_feed.waits_for_worker_threads(trace):
        exposed, ahead_now, scale = 0.0, step, 1.0  # Keras's own threads: no node tells that they work ahead
    elif pipe is None or not any(n.asynchronous for n in pipe.nodes):
        exposed, ahead_now = wait, 0.0
        scale = wait / modelled if modelled > 0 and wait > 0 else 1.0
    elif wait > MIN_INPUT_LIMIT_SHARE * step and ahead > modelled:
        # The batch is made in parallel but waited for, so it takes as long as the whole step.
        exposed, ahead_now = min(modelled, wait), step
        scale = step / ahead
    else:
        exposed, ahead_now, scale = min(modelled, wait), min(ahead, step), 1.0
    cpu = trace.facts.get("cpu_ms_per_step")
    slowest = pipe.slowest_stage if pipe else None
    slow = frozenset(n.id for n in slowest.nodes) if slowest else frozenset()
    return Present(columns, exposed, ahead_now, scale, slow, float(cpu) if cpu else None, trace.cores)


def _scale_to_mean(column: Floats, mean: float) -> Floats:
    """A sample of steps, scaled to the mean of the whole run; unchanged if all steps are there."""
    own = float(column.mean()) if len(column) else 0.0
    return column * (mean / own) if own and own != mean else column


def replay_remedies(trace: Trace, remedies: Iterable[Remedy]) -> Replay:
    """Replays the step and the run with all ``remedies`` at once."""
    remedies = list(remedies)
    now = trace.compute_once(present_run)
    step = _replayed_step_ms(now, trace, remedies) if trace.step_ms else 0.0
    others = trace.steps.windowed if trace.steps.edge is None else trace.steps.windowed | trace.steps.edge
    steps_ms = trace.steps.total_ms + float(trace.steps.ms[~trace.steps.steady & others].sum())
    shrunk = step
    for remedy in remedies:
        if isinstance(remedy, Stretch):
            shrunk = min(shrunk, remedy.steps * remedy.step_ms)
    gaining = max((r.share for r in remedies if isinstance(r, Supply)), default=1.0)
    run = trace.run_ms - (gaining * steps_ms * (1 - shrunk / trace.step_ms) if trace.step_ms else 0.0)
    run -= sum(r.ms for r in remedies if isinstance(r, Skip))
    return Replay(max(shrunk, (1 - MAX_SAVED_SHARE) * trace.step_ms), max(run, (1 - MAX_SAVED_SHARE) * trace.run_ms))


def _replayed_step_ms(now: Present, trace: Trace, remedies: list[Remedy]) -> float:
    drops: dict[Category, float] = {}
    computed: dict[Category, float] = {}
    cpu_saved = 0.0
    for remedy in remedies:
        if isinstance(remedy, Drop):
            for category, ms in remedy.ms.items():
                drops[category] = max(drops.get(category, 0.0), ms)
                computed[category] = max(computed.get(category, 0.0), ms * remedy.cpu)
                cpu_saved += ms * remedy.cpu
    n, removed = int(trace.steps.steady.sum()), dict.fromkeys(BETWEEN_CALLS_SHARES, 0.0)
    rest, wait = np.zeros(n), now.columns.get(Category.INPUT, np.zeros(n))
    for category, column in now.columns.items():
        mean = float(column.mean()) if n else 0.0
        kept_share = max(1 - drops.get(category, 0.0) / mean, 0.0) if mean > 0 else 1.0
        if category is Category.INPUT:
            wait = column * kept_share
        else:
            rest = rest + column * kept_share
        if category in BETWEEN_CALLS_SHARES:
            removed[category] = min(mean * (1 - kept_share), computed.get(category, 0.0))
    if not trace.on_accelerator:
        # The remaining parts find warm caches if the script's Python, tracing or garbage collection no longer runs
        # between them.
        stays = float(rest.mean()) if n else 0.0
        cold = sum(ms * cold_cache_ms(stays, BETWEEN_CALLS_SHARES[category]) for category, ms in removed.items())
        rest = rest * (1 - cold / trace.step_ms / max(stays, 1e-9))
    supplies = [r for r in remedies if isinstance(r, Supply)]
    if not supplies:
        return float((rest + wait).mean()) if n else 0.0
    exposed, ahead = _batch_time_ms(now, supplies, trace)
    work = min(_remaining_work(s, trace) for s in supplies)
    before = float((rest + wait).mean()) if n else 0.0
    # Work that producing threads no longer do takes neither cores nor the GIL from the step. If few steps wait, and for
    # long, the other steps ran undisturbed.
    waited = input_feed.usual_step_waits(trace) or any(s.lock for s in supplies) or takes_step_cores(trace)
    fewer = bool(trace.producers) or any(_remaining_calls(s, trace) < MAX_CALLS_LEFT_SHARE for s in supplies)
    reads = any(s.reads for s in supplies)
    alone = work < MAX_INPUT_LEFT_SHARE and fewer and not reads
    quiet = _undisturbed_share(trace, alone, reads) if now.ahead_ms and waited else 1.0
    undisturbed = 1 - (1 - quiet) * (1 - work)
    exposed *= undisturbed if now.ahead_ms else 1.0  # making a batch in the step's own thread is a part of the step
    alongside = float(rest.mean()) if n else 0.0
    # However long its threads wait for a core, which other work may use, only the input's own work disappears.
    mean_rest = max(alongside * undisturbed, alongside - batch_making_ms(trace, supplies) * (1 - work))
    mean_rest += max(s.added_ms for s in supplies)
    # Buffers even out the difference between steps, so the mean rate of the slower side decides.
    step = mean_rest + exposed + max(ahead - mean_rest - exposed, 0.0)
    if now.cpu_ms is not None and work >= MAX_INPUT_LEFT_SHARE:
        spared = _input_processor_ms(trace) * (1 - work)
        step = max(step, min((now.cpu_ms - cpu_saved - spared) / now.cores, before))
    return min(step, before)


def batch_making_ms(trace: Trace, supplies: Iterable[Supply] = ()) -> float:
    """Thread time of making a batch in ms: the rest of a step gets shorter by at most this without it.

    Time of nodes and of Python in them, on a processor or not. Starting very many calls and creating data sets per
    batch belong to no node. If ``supplies`` avoid these, it is the processor time beyond the step's own.
    """
    pipe = trace.pipeline
    nodes = sum(n.ms for n in pipe.nodes if n.family != "Prefetch") if pipe is not None else 0.0
    making_ms = max(nodes, sum(p.ms_per_step for p in trace.producers))
    untold = not making_ms or any(_remaining_calls(s, trace) < MAX_CALLS_LEFT_SHARE for s in supplies)
    return max(making_ms, _input_processor_ms(trace)) if untold else making_ms


def _undisturbed_share(trace: Trace, alone: bool, reads: bool) -> float:
    """The duration of the rest of a step if nothing makes input in parallel, relative to its mean.

    ``alone``: nothing else takes the GIL either, or fills the executors' queues with very many calls. ``reads``:
    threads still read input, so the rest takes as long as the longer of both estimates says.
    """
    pipe = trace.pipeline
    rest = trace.step_ms - trace.mean(Category.INPUT)
    gaps, cpu = 1.0, 1.0
    if pipe is not None and pipe.gap_ms and pipe.quiet_ms:
        gaps = max(pipe.quiet_ms / pipe.gap_ms, MIN_QUIET_SHARE)
    if rest > 0:
        # On a CPU the rest of a step is computing and waiting for a core or for the GIL. Alone it takes at most the
        # processor time of its threads.
        cpu = max(1 - held_up_ms(trace) / rest, 0.0 if alone and trace.producers else MIN_QUIET_SHARE)
        cpu = min(cpu, max(_spread_processor_ms(trace) / rest, MIN_QUIET_SHARE))
    if alone and not trace.on_accelerator and min(gaps, cpu) < 1:
        gaps *= QUIET_STEP_FACTOR
    return max(gaps, cpu) if reads else min(gaps, cpu)


def held_up_ms(trace: Trace) -> float:
    """The time that a CPU step with its batch ready waits for a core or for the GIL.

    0 if that is unknown.
    """
    own = _step_processor_ms(trace)
    if not own or trace.on_accelerator:
        return 0.0
    return max(trace.step_ms - trace.mean(Category.INPUT) - own, 0.0)


def _spread_processor_ms(trace: Trace) -> float:
    """Duration of a step's own processor time if long ops are split over all cores; infinite if unknown."""
    own, main = _step_processor_ms(trace), float(trace.facts.get("main_cpu_ms") or 0.0)
    ops = trace.mean(Category.DEVICE) + trace.mean(Category.UNATTRIBUTED)
    if not own or not main or ops <= 0 or trace.on_accelerator:
        return float("inf")
    return main + max(own - main, 0.0) / (1 + (trace.cores - 1) * min(splittable_op_ms(trace) / ops, 1.0))


def takes_step_cores(trace: Trace) -> bool:
    """Whether making input takes cores from the steps that hide it, although few of them wait for a batch.

    What is made while a step waits (an epoch's first, for a buffer that it then empties) takes no core from the others.
    """
    pipe, used = trace.pipeline, trace.facts.get("cpu_ms_per_step")
    if pipe is None or not used:
        return False
    extra_ms = pipe.ms - trace.mean(Category.INPUT) * min(largest_parallelism(pipe.nodes), trace.cores)
    return extra_ms >= MIN_CROWDING_SHARE * float(used) and held_up_ms(trace) >= MIN_CROWDING_SHARE * trace.step_ms


def _step_processor_ms(trace: Trace) -> float | None:
    """Processor time of the step's own computing; None if it was not measured.

    The main thread and TensorFlow's executors are measured. The threads over which large ops are split have no
    recognisable name: processor time that belongs to neither executors nor input nodes is theirs, as far as there are
    such ops. Executors also start the calls that make input, so the step itself has one core, or all cores while ops
    run.
    """
    own = trace.facts.get("step_cpu_ms")
    if not own:
        return None
    rest = trace.step_ms - trace.mean(Category.INPUT)
    ops = trace.mean(Category.DEVICE) + trace.mean(Category.UNATTRIBUTED)
    nodes = trace.pipeline.ms if trace.pipeline is not None else 0.0
    used = float(trace.facts.get("cpu_ms_per_step") or 0.0)
    split = used - float(own) - nodes
    if trace.producers:
        # Python that makes input uses at most one core because of the GIL
        split = max(split, used - trace.step_ms - float(own))
    found = float(own) + min(max(split, 0.0), trace.cores * splittable_op_ms(trace))
    return min(found, rest + (trace.cores - 1) * ops)


def _batch_time_ms(now: Present, supplies: list[Supply], trace: Trace) -> tuple[float, float]:
    """Time of a batch in the step's own thread and in parallel with it, with the best of all ``supplies``."""
    times = []
    for one in supplies:
        if one.pipeline is not None:
            scale = now.scale
            if _remaining_calls(one, trace) < MAX_CALLS_LEFT_SHARE:
                scale = 1 + (scale - 1) * _remaining_work(one, trace)
            stages = [
                s.latency_ms * (scale if now.slow & {n.id for n in s.nodes} else 1.0) for s in one.pipeline.stages()
            ]
            times.append((stages[0], max(stages[1:], default=0.0)))
        else:
            times.append((now.exposed_ms * one.factor, now.ahead_ms * one.factor))
    exposed, ahead = min(times, key=max)
    return (0.0, max(exposed, ahead)) if any(s.overlapped for s in supplies) else (exposed, ahead)


def _remaining_work(supply: Supply, trace: Trace) -> float:
    """The share of present work that the producing threads would still do."""
    if supply.pipeline is None or trace.pipeline is None or trace.pipeline.ms <= 0:
        return supply.work
    now, then = (sum(n.ms for n in p.nodes if n.family != "Prefetch") for p in (trace.pipeline, supply.pipeline))
    left = _remaining_calls(supply, trace)
    if left < MAX_CALLS_LEFT_SHARE:
        # Processor time beyond the nodes' own is the cost of starting their calls, which disappears with them.
        starting = max(_input_processor_ms(trace) - now, 0.0)
        now, then = now + starting, then + starting * left
    return min(then / now, 1.0) if now > 0 else supply.work


def _remaining_calls(supply: Supply, trace: Trace) -> float:
    """The share of function calls per batch that a remedy leaves.

    A function that makes data sets is called once for many.
    """
    if supply.nested:
        return 0.0
    if supply.pipeline is None or trace.pipeline is None:
        return 1.0
    now, then = (
        sum(input_feed.calls_per_batch(p, n) for n in p.nodes if n.family in ("Map", "Filter"))
        for p in (trace.pipeline, supply.pipeline)
    )
    return then / now if now else 1.0


def _input_processor_ms(trace: Trace) -> float:
    """Processor time of making a batch: at most what the process used beyond the step's own computing."""
    total = float(trace.facts.get("cpu_ms_per_step") or 0.0)
    own = _step_processor_ms(trace)
    if own:
        return max(total - own, 0.0)
    making_ms = (
        trace.pipeline.ms if trace.pipeline and trace.pipeline.nodes else sum(p.ms_per_step for p in trace.producers)
    )
    # A node's time does not contain the cost of starting its calls. Processor time that the rest of the step cannot
    # have used belongs to the input.
    rest = trace.step_ms - trace.mean(Category.INPUT)
    return max(min(making_ms, total - 0.5 * rest), total - rest, 0.0)
