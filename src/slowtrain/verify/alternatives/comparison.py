"""Measures the alternatives of a script in turns, round after round, with another seed in each round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowtrain.errors import InputError
from slowtrain.model.measurements import Range
from slowtrain.model.shrinking import Alternative, InferenceForm, LossPoint, Shrinking, Unmeasured
from slowtrain.number_text import format_count
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.trace.signals.device import op_work, tensor_cores
from slowtrain.verify.alternatives.model_alternatives import AS_IS, Change, ModelContents, layer_shares, model_changes
from slowtrain.verify.batch_sizes import throughput_curve
from slowtrain.verify.batch_sizes.batch_probe import UNTRAINED, BatchProbes, step_batch
from slowtrain.verify.learning_rates.loss_curves import LossCurve, drawn_curves, loss_curve
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.paired_trial import Bench, speedup_ratio
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Treatment

ROUNDS = 3  # the least from which there is an interval
INVENTORY_RULE = Rule(seconds=2.0, steps=60, windows=True)
KNEE_BUDGET_SHARE = 0.25  # of the time, for the search of the batch at the knee
MAX_RESULTS = 4000  # losses that a probe keeps
MAX_LAYERS = 6  # that are shown
NO_FALL = "the loss of the model as it is did not fall in this time, so losses were not compared; give longer --seconds"
RANDOM_INPUTS = "the forms for inference got random inputs, because fit got no arrays that are the model's only input"
CHANGE_FAULTS = ("patching", "layers", "prune")  # parts of the recorder that make a change
TIME_ENDED = "the time ended; give a longer --budget"
TIME_MARGIN = 1.2  # times the longest round so far


@dataclass(frozen=True)
class Measured:
    """One process: its probe, and its loss over samples if known."""

    probe: Probe
    curve: LossCurve | None
    parameters: int | None


def compare_alternatives(bench: Bench, rule: Rule) -> Shrinking:
    """Measures the alternatives. Raises ``InputError`` for a script that cannot be measured."""
    begun = time.monotonic()
    trace = _inventory(bench)
    contents = _model_contents(bench, trace)
    changes, unmeasured = model_changes(contents)
    usual = change_faults(trace)
    inference, no_inference, inference_notes = _inference_forms(bench)
    processes, failed = _run_rounds(bench, [AS_IS, *changes], rule, usual)
    peaks, no_memory = _measure_peaks(bench, [c for c in (AS_IS, *changes) if c.name in processes], contents.batch)
    samples, target, notes = find_target(processes[AS_IS.name])
    curves = drawn_curves({name: [one.curve for one in several] for name, several in processes.items()})
    rows = [
        _alternative(change, processes, peaks.get(change.name), samples, target, curves.get(change.name, ()))
        for change in (AS_IS, *changes)
        if change.name in processes
    ]
    return Shrinking(
        bench.script.target,
        (bench.script.target, *bench.script.arguments),
        side_files.source_sha256(trace.facts),
        side_files.computing_device(trace.facts),
        contents.layers[:MAX_LAYERS],
        tuple(rows),
        inference,
        (*failed, *unmeasured, *no_inference),
        samples,
        target,
        min(map(len, processes.values())),
        (*notes, *no_memory, *inference_notes),
        time.monotonic() - begun,
    )


def _run(bench: Bench, name: str, treatment: Treatment, rule: Rule, seed: int) -> Probe:
    number = len(list(bench.folder.glob("alternative-*")))
    bench.say(f"measuring {name}")
    return probe_process.run_probe(
        bench.script, Candidate(name, treatment=treatment), rule, bench.folder / f"alternative-{number:03d}",
        limit_s=max(bench.left_s, 1.0), seed=seed, tick=bench.tick,
    )  # fmt: skip


def _bench_below(bench: Bench, name: str) -> Bench:
    folder = bench.folder / name
    folder.mkdir(parents=True)
    return replace(bench, folder=folder)


def _inventory(bench: Bench) -> Trace:
    """The unchanged script, recorded with the layers of its model and the time of its ops."""
    probe = _run(bench, "the unchanged script", Treatment(model=()), INVENTORY_RULE, bench.seed)
    target = bench.script.target
    if probe.failed:
        raise InputError(f"{target} does not run ({probe.failed}); nothing to compare with")
    trace = recording_trace.load_recording(probe.folder)
    if not len(trace.steps) or not trace.steps.training:
        raise InputError(f"{target} {'takes too few training steps to time one' if is_fitted(trace) else UNTRAINED}")
    if not trace.fact("model"):
        raise InputError(f"{target} trains no Keras model, so that its layers cannot be changed from outside")
    return trace


def _model_contents(bench: Bench, trace: Trace) -> ModelContents:
    about: Mapping[str, Any] = trace.fact("model") or {}
    shares = op_work.time_share_by_layer(trace.kernels) if trace.kernels is not None else []
    layers = tuple(layer_shares(about.get("layers", ()), shares))
    batch = step_batch(trace)
    knee, why = _find_knee(bench, batch)
    card = tensor_cores.find_card(trace)
    return ModelContents(
        about,
        layers,
        batch,
        knee,
        why,
        trace.on_accelerator,
        trace.on_jax,
        is_fitted(trace),
        card.capability if card is not None and card.vendor == "nvidia" else None,
    )


def is_fitted(trace: Trace) -> bool:
    """Whether ``fit`` was called."""
    return any(loop.name == "fit" for loop in trace.events_of("loop"))


def _find_knee(bench: Bench, batch: int) -> tuple[int | None, str]:
    """The batch at the knee of the throughput, or why it is not known."""
    if not batch:
        return None, "the steps do not show how many samples they take"
    deadline = time.monotonic() + bench.left_s * KNEE_BUDGET_SHARE
    try:
        curve = throughput_curve.measure_curve(
            replace(_bench_below(bench, "batches"), deadline=deadline), None, own=batch
        )
    except InputError as error:
        return None, str(error)
    largest = max((p.batch for p in curve.points), default=0)
    knee = curve.knee or (largest if largest > batch else None)
    return knee, "" if knee else curve.ended


def _run_rounds(
    bench: Bench, changes: Sequence[Change], rule: Rule, usual: frozenset[str]
) -> tuple[dict[str, list[Measured]], list[Unmeasured]]:
    """Processes by the name of the change, one for each round, and the changes that failed.

    ``usual`` are faults of the recorder in the unchanged script: any other means that the change was not made.
    """
    processes: dict[str, list[Measured]] = {change.name: [] for change in changes}
    failed: list[Unmeasured] = []
    longest_s = 0.0
    for number in range(ROUNDS):
        if number and bench.left_s < TIME_MARGIN * longest_s:
            break
        begun = time.monotonic()
        order = list(changes) if number % 2 == 0 else list(reversed(changes))
        for change in order:
            if change.name not in processes:
                continue
            if bench.left_s <= 0:
                break
            treatment = replace(change.treatment, other_seeds=number, results=MAX_RESULTS)
            probe = _run(bench, f"{change.name}, round {number + 1}", treatment, rule, bench.seed + number)
            if bench.left_s <= 0 and not probe.step_ms:
                break  # a process that was cut short says nothing about the change
            if why := _failure_reason(probe, usual):
                if change is AS_IS:
                    raise InputError(f"{bench.script.target} could not be timed: {why}")
                failed.append(Unmeasured(change.name, why))
                del processes[change.name]
                continue
            processes[change.name].append(_measured_process(probe))
        longest_s = max(longest_s, time.monotonic() - begun)
    if not processes[AS_IS.name]:
        raise InputError(f"the time ended before {bench.script.target} was timed; give a longer --budget")
    failed += [Unmeasured(name, TIME_ENDED) for name, several in processes.items() if not several]
    return {name: several for name, several in processes.items() if several}, failed


def _failure_reason(probe: Probe, usual: frozenset[str]) -> str:
    """Why a probe says nothing about its change; empty if it does."""
    if probe.failed or not probe.step_ms:
        return probe.failed or "no steady steps could be timed"
    faults = change_faults(recording_trace.load_recording(probe.folder)) - usual
    return f"the change could not be made: {min(faults)}" if faults else ""


def change_faults(trace: Trace) -> frozenset[str]:
    """The last line of each fault of a part of the recorder that makes changes."""
    faults = [str(one) for one in trace.fact("faults", default=None) or ()]
    return frozenset(one.rstrip().rpartition("\n")[2] for one in faults if one.startswith(CHANGE_FAULTS))


def _measured_process(probe: Probe) -> Measured:
    trace = recording_trace.load_recording(probe.folder)
    about = trace.fact("model") or {}
    return Measured(probe, loss_curve(probe, trace), about.get("parameters"))


def find_target(own: Sequence[Measured]) -> tuple[int | None, float | None, list[str]]:
    """The number of samples after which losses are compared, the loss that the script's own model has then in every
    round, and notes.

    None if its loss does not fall: then noise reaches it at any time.
    """
    curves = [one.curve for one in own if one.curve is not None]
    if len(curves) < len(own):
        return None, None, []
    if not all(curve.falls for curve in curves):
        return None, None, [NO_FALL]
    samples = int(min(curve.samples for curve in curves))
    ends = [loss for curve in curves if (loss := curve.loss_after(samples)) is not None]
    return samples, max(ends) if len(ends) == len(curves) else None, []


def _alternative(
    change: Change,
    processes: Mapping[str, Sequence[Measured]],
    peak_bytes: int | None,
    samples: int | None,
    target: float | None,
    curve: tuple[LossPoint, ...],
) -> Alternative:
    mine, own = processes[change.name], processes[AS_IS.name]
    rounds = list(zip(own, mine, strict=False))
    by_sample = all(one.probe.sample_ms for pair in rounds for one in pair)
    times = [(_time(b.probe, by_sample), _time(c.probe, by_sample)) for b, c in rounds]
    reached = [_seconds_to(one, target) for one in mine]
    known = [s for s in reached if s is not None]
    before = [_seconds_to(one, target) for one in own]
    pairs = [(b, c) for b, c in zip(before, reached, strict=False) if b and c]
    samples_s = [1e3 / one.probe.sample_ms for one in mine if one.probe.sample_ms]
    return Alternative(
        change.name,
        change.says,
        str(change.effect),
        statistics.fmean(one.probe.step_ms or 0.0 for one in mine),
        statistics.fmean(samples_s) if samples_s else None,
        _range(times),
        peak_bytes,
        next((one.parameters for one in mine), None),
        _mean_loss([one.curve for one in mine], samples),
        statistics.fmean(known) if len(known) == len(mine) else None,
        _range(pairs) if len(pairs) == len(rounds) and len(known) == len(mine) else None,
        curve,
    )


def _seconds_to(one: Measured, loss: float | None) -> float | None:
    return one.curve.seconds_to(loss) if one.curve is not None and loss is not None else None


def _mean_loss(curves: Sequence[LossCurve | None], samples: int | None) -> float | None:
    """The mean loss after so many samples; None if one process took fewer, or reports no loss."""
    losses = [c.loss_after(samples) if c is not None and samples is not None else None for c in curves]
    known = [loss for loss in losses if loss is not None]
    return statistics.fmean(known) if known and len(known) == len(losses) else None


def _time(probe: Probe, by_sample: bool) -> float:
    return (probe.sample_ms if by_sample else probe.step_ms) or 0.0


def _range(pairs: Sequence[tuple[float, float]]) -> Range:
    found = speedup_ratio(pairs)
    return Range(found.speedup, found.low, found.high)


def _inference_forms(bench: Bench) -> tuple[tuple[InferenceForm, ...], list[Unmeasured], list[str]]:
    """The forms for inference, timed in turn in one process; those that this model cannot take, with the reason; and
    notes.
    """
    if bench.left_s <= 0:
        return (), [Unmeasured("inference", TIME_ENDED)], []
    probe = _run(bench, "forms for inference", Treatment(model=(), inference=True), Rule(seconds=0.0), bench.seed)
    rows: list[dict[str, Any]] = []
    if not probe.failed:
        rows = recording_trace.load_recording(probe.folder).fact("inference") or []
    if not rows:
        return (), [Unmeasured("inference", probe.failed or "the model could not be taken out of the script")], []
    failed = [Unmeasured(row["form"], row["failed"]) for row in rows if "failed" in row]
    if "ms" not in rows[0]:
        return (), failed, []  # there is nothing to compare the other forms with
    own = rows[0]["ms"]
    forms = [
        InferenceForm(
            row["form"], row["bytes"], float(np.median(row["ms"])), _range(list(zip(own, row["ms"], strict=True))),
            row["difference"], row["trainable"],
        )
        for row in rows
        if "ms" in row
    ]  # fmt: skip
    return tuple(forms), failed, [] if rows[0]["own_inputs"] else [RANDOM_INPUTS]


def _measure_peaks(bench: Bench, changes: Sequence[Change], batch: int) -> tuple[dict[str, int], list[str]]:
    """The peak of the allocator's memory in three steps, by the name of the change, as far as the time suffices."""
    sizing = BatchProbes(_bench_below(bench, "memory"))
    sizing.own = batch
    found: dict[str, int] = {}
    for at, change in enumerate(changes):
        longest_s = max((r.seconds for r in sizing.recorded), default=0.0)
        if bench.left_s <= TIME_MARGIN * longest_s:
            rest = len(changes) - at
            return found, [f"the memory of {format_count(rest, 'alternative')} was not measured: {TIME_ENDED}"]
        try:
            found[change.name] = sizing.record_treatment(
                change.treatment, f"the memory of {change.name}"
            ).record.peak_bytes
        except InputError as error:
            if not found:
                return {}, [f"memory was not measured: {error}"]
    return found, []
