"""The device memory that a script needs, and the effect of its batch size, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from slowtrain import __version__
from slowtrain.model.measurements import BatchCurve, Device, MemoryAnswer
from slowtrain.number_text import format_count, format_number
from slowtrain.report import wording
from slowtrain.report.terminal import Terminal, joined_lines, readable_width

MEMORY_SCHEMA, BATCH_SCHEMA = "slowtrain.memory/1", "slowtrain.batch/1"
MAX_LAYERS = 6
MEMORY_BAR_COLUMNS, RATE_BAR_COLUMNS = 24, 12
PARTS = {
    "parameters": "weights and other variables of the model",
    "optimizer": "what the optimizer keeps for each weight",
    "gradients": "of weights and of activations, while they are used",
    "activations": "outputs kept for the way back",
    "input": "batches on their way to the model",
    "workspace": "what ops take while they work",
    "step": "activations, gradients, input and workspace, which XLA's program takes without names",
    "other": "constants, data held in memory, larger pieces than asked for",
}


def memory_text(answer: MemoryAnswer, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    return joined_lines(_memory_lines(answer, Terminal(readable_width(width), colour, unicode)))


def memory_headline(answer: MemoryAnswer) -> str:
    """``fits: 3.1 of 15.8 GiB at batch 64; largest batch on a T4: 402``."""
    peak = wording.bytes_text(answer.need.peak_bytes)
    if answer.device is None:
        return f"{peak} at batch {answer.need.batch}; name a card with --device to see what fits"
    limit = wording.bytes_text(answer.device.limit_bytes)
    verdict = "fits" if answer.fits else "does not fit"
    largest = f"largest batch on {answer.device.name}: {answer.largest_batch:,}" if answer.largest_batch else (
        f"not even one sample fits {answer.device.name}"
    )  # fmt: skip
    return f"{verdict}: {peak} of {limit} at batch {answer.need.batch}; {largest}"


def _memory_lines(answer: MemoryAnswer, out: Terminal) -> Iterator[str]:
    tone = {True: "bold green", False: "bold red", None: "bold"}[answer.fits]
    yield from out.hanging("", memory_headline(answer), style=tone)
    yield ""
    need = answer.need
    yield f"At the peak of a step of {format_count(need.batch, 'sample')}:"
    whole = max(need.peak_bytes, 1)
    for name, size in need.parts.items():
        if size:
            bar = "#" * round(MEMORY_BAR_COLUMNS * size / whole)
            yield f"  {name:<12} {wording.bytes_text(size):>10} {wording.share_text(size / whole):>6}  {bar}"
    if need.layers:
        yield ""
        yield "Activations, by layer:"
        layers = [*need.layers[:MAX_LAYERS]]
        if rest := need.layers[MAX_LAYERS:]:
            layers.append((f"{len(rest)} others", sum(size for _, size in rest)))
        for name, size in layers:
            yield f"  {out.column(name, 34)} {wording.bytes_text(size):>10}"
    yield ""
    yield from out.hanging("Measured: ", measurement_text(answer))
    if answer.tried:
        yield from out.hanging("Tried: ", trial_text(answer))
    for note in answer.notes:
        yield from out.hanging("Note: ", note)


def trial_text(answer: MemoryAnswer) -> str:
    runs: dict[int, list[bool]] = {}
    for batch, fitted in sorted(answer.tried):
        runs.setdefault(batch, []).append(fitted)
    limit = f" of {wording.bytes_text(answer.device.limit_bytes)}" if answer.device is not None else ""
    words = []
    for how, wanted in (("fitted", {True}), ("did not each time", {True, False}), ("did not", {False})):
        batches = [
            f"{batch:,}" + (f" ({len(each)} times)" if len(each) > 1 else "")
            for batch, each in runs.items() if set(each) == wanted
        ]  # fmt: skip
        words += [f"{', '.join(batches)} {how}"] if batches else []
    return f"runs of a few steps under a limit{limit}: batches of {'; '.join(words)}"


def measurement_text(answer: MemoryAnswer) -> str:
    probes = ", ".join(f"{b:,} ({wording.bytes_text(p)})" for b, p in answer.measured)
    words = f"the allocator's own record at batches {probes}; every other size is that record replayed"
    if answer.error_share is not None:
        words += f", which was at most {wording.share_text(answer.error_share)} off at the probes that it had not seen"
    return words


def memory_json(answer: MemoryAnswer) -> str:
    about: dict[str, Any] = {"schema": MEMORY_SCHEMA, "slowtrain": __version__, **asdict(answer)}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


# -- batch


def batch_text(curve: BatchCurve, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    return joined_lines(_batch_lines(curve, Terminal(readable_width(width), colour, unicode)))


def batch_headline(curve: BatchCurve) -> str:
    own = next((p for p in curve.points if p.batch == curve.batch), None)
    on = on_device(curve)
    if curve.knee is None:
        if len(curve.points) > 1 and not curve.still_gains:
            return _knee_not_found(curve, on)
        where = "lies beyond what was measured" if len(curve.points) > 1 else "is not known"
        return f"{_gain_of_doublings(curve)}{on}: the knee {where}"
    less = f"beyond it a doubling gains less than {wording.share_text(curve.gain_share)}"
    words = f"the knee is at batch {curve.knee:,}{on}: {less}"
    at = next(p for p in curve.points if p.batch == curve.knee)
    if own is None or own.batch == curve.knee:
        return f"{words}; that is the batch that it has" if own else words
    if own.batch < curve.knee:
        more = format_number(at.samples_per_s / own.samples_per_s, 2)
        return f"{words}; {more} times the samples a second of batch {own.batch:,}"
    return f"{words}; batch {own.batch:,} only takes more memory"


def _knee_not_found(curve: BatchCurve, on: str) -> str:
    """For a curve whose doublings all gained little: the knee lies below the smallest batch measured."""
    first, *between, last = (f"{p.batch:,}" for p in curve.points)
    batches = f"{', '.join([first, *between])} and {last}"
    less = f"no doubling gained {wording.share_text(curve.gain_share)}"
    return f"the knee was not found{on}: measured only batches {batches}, of which {less}"


def _gain_of_doublings(curve: BatchCurve) -> str:
    """For a curve without a knee: the gain of its doublings. One before the last may have been disturbed."""
    last = curve.points[-1]
    rates = [p.samples_per_s for p in curve.points]
    gains = [after / this - 1 for this, after in pairwise(rates)]
    if not gains:
        return f"batch {last.batch:,} alone was timed"
    if min(gains) >= curve.gain_share:
        return f"every doubling up to {last.batch:,} gained {wording.share_text(curve.gain_share)} or more"
    return f"the doubling to {last.batch:,} still gained {wording.share_text(gains[-1])}"


def knee_range(curve: BatchCurve) -> str:
    """The knee at the two ends of the intervals. Empty if it is the same batch."""
    ends = [f"batch {b:,}" if b is not None else "beyond what was measured" for b in (curve.knee_low, curve.knee_high)]
    if len(curve.points) < 2 or curve.knee_low == curve.knee == curve.knee_high:
        return ""
    return f"with each gain as small as its range allows {ends[0]}, as large {ends[1]}"


def on_device(curve: BatchCurve) -> str:
    """`` on CPU: AMD EPYC``, because a knee holds for the device that was timed."""
    words = wording.printable_text(wording.device_text(curve.measured_on))
    return f" on {words}" if words != wording.UNKNOWN else ""


def batch_limit(curve: BatchCurve) -> str:
    """The largest batch that is predicted to fit. Empty if no memory limit was given."""
    if curve.limit_batch is None or curve.device is None:
        return ""
    on = _device_size(curve.device)
    return f"batch {curve.limit_batch:,} on {on}, by forecast: slowtrain memory tries it where it can"


def _batch_lines(curve: BatchCurve, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", batch_headline(curve), style="bold")
    yield ""
    yield f"{'batch':>8} {'ms/step':>9} {'samples/s':>10} {'range':>17} {'memory':>10}"
    most = max(p.samples_per_s for p in curve.points)
    for p in curve.points:
        mark = " knee" if p.batch == curve.knee else " now" if p.batch == curve.batch else ""
        bar = "#" * round(RATE_BAR_COLUMNS * p.samples_per_s / most)
        memory = wording.bytes_text(p.peak_bytes) if p.peak_bytes is not None else "–"
        rates = f"{sample_rate(p.samples_per_s):>10} {f'{sample_rate(p.low)} to {sample_rate(p.high)}':>17}"
        yield f"{p.batch:>8,} {p.step_ms:>9.4g} {rates} {memory:>10} {bar}{mark}"
    yield ""
    yield from out.hanging("A step: ", _step_line(curve))
    yield from out.hanging("Knee: ", knee_range(curve))
    yield from out.hanging("Limit: ", batch_limit(curve))
    yield from out.hanging("Ended: ", curve.ended or "")
    for note in curve.notes:
        yield from out.hanging("Note: ", note)


def _step_line(curve: BatchCurve) -> str:
    if curve.fixed_ms is None or curve.ms_per_sample is None:
        return ""
    fixed = f"{format_number(curve.fixed_ms)} ms"
    if curve.fixed_low_ms is not None and curve.fixed_high_ms is not None:
        fixed += f" ({format_number(curve.fixed_low_ms)} to {format_number(curve.fixed_high_ms)})"
    return f"{fixed} whatever the batch, and {format_number(curve.ms_per_sample)} ms a sample"


def sample_rate(value: float) -> str:
    """Samples a second, without decimals from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{format_number(value)}"


def _device_size(device: Device) -> str:
    return f"{device.name} ({wording.bytes_text(device.limit_bytes)})"


def batch_json(curve: BatchCurve) -> str:
    about: dict[str, Any] = {"schema": BATCH_SCHEMA, "slowtrain": __version__, **asdict(curve)}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"
