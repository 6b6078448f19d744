"""What a script needs of a device's memory, and what its batch size does, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from slowtrain import __version__
from slowtrain.model.answers.batch_sizing import BatchCurve, Device, MemoryAnswer
from slowtrain.number_text import format_count, format_number
from slowtrain.report import wording
from slowtrain.report.terminal import Paper

MEMORY_SCHEMA, BATCH_SCHEMA = "slowtrain.memory/1", "slowtrain.batch/1"
WIDEST, NARROWEST = 110, 40
LAYERS = 6
BAR = 24
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


def render_memory(answer: MemoryAnswer, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    return "\n".join(line.rstrip() for line in _memory(answer, paper)) + "\n"


def headline(answer: MemoryAnswer) -> str:
    """``fits: 3.1 of 15.8 GiB at batch 64; largest batch on a T4: 402``."""
    peak = wording.size(answer.need.peak_bytes)
    if answer.device is None:
        return f"{peak} at batch {answer.need.batch}; name a card with --device to see what fits"
    limit = wording.size(answer.device.limit_bytes)
    verdict = "fits" if answer.fits else "does not fit"
    largest = f"largest batch on {answer.device.name}: {answer.largest_batch:,}" if answer.largest_batch else (
        f"not even one sample fits {answer.device.name}"
    )  # fmt: skip
    return f"{verdict}: {peak} of {limit} at batch {answer.need.batch}; {largest}"


def _memory(answer: MemoryAnswer, paper: Paper) -> Iterator[str]:
    tone = "green" if answer.fits else "red" if answer.fits is False else "bold"
    for line in paper.wrap(headline(answer), paper.width):
        yield paper.style(line, "bold", tone)
    yield ""
    need = answer.need
    yield f"At the peak of a step of {format_count(need.batch, 'sample')}:"
    whole = max(need.peak_bytes, 1)
    for name, size in need.parts.items():
        if size:
            bar = "#" * round(BAR * size / whole)
            yield f"  {name:<12} {wording.size(size):>10} {wording.share(size / whole):>6}  {bar}"
    if need.layers:
        yield ""
        yield "Activations, by layer:"
        for name, size in need.layers[:LAYERS]:
            yield f"  {wording.cut(wording.clean(name), 34):<34} {wording.size(size):>10}"
        rest = sum(size for _, size in need.layers[LAYERS:])
        if rest:
            yield f"  {f'{len(need.layers) - LAYERS} others':<34} {wording.size(rest):>10}"
    yield ""
    yield from _told(paper, "Measured: ", measured(answer))
    if answer.tried:
        yield from _told(paper, "Tried: ", tried(answer))
    for note in answer.notes:
        yield from _told(paper, "Note: ", note)


def tried(answer: MemoryAnswer) -> str:
    runs: dict[int, list[bool]] = {}
    for batch, fitted in sorted(answer.tried):
        runs.setdefault(batch, []).append(fitted)
    limit = f" of {wording.size(answer.device.limit_bytes)}" if answer.device is not None else ""
    said = []
    for how, wanted in (("fitted", {True}), ("did not each time", {True, False}), ("did not", {False})):
        batches = [
            f"{batch:,}" + (f" ({len(each)} times)" if len(each) > 1 else "")
            for batch, each in runs.items() if set(each) == wanted
        ]  # fmt: skip
        said += [f"{', '.join(batches)} {how}"] if batches else []
    return f"runs of a few steps under a limit{limit}: batches of {'; '.join(said)}"


def measured(answer: MemoryAnswer) -> str:
    probes = ", ".join(f"{b:,} ({wording.size(p)})" for b, p in answer.measured)
    said = f"the allocator's own record at batches {probes}; every other size is that record replayed"
    if answer.error_share is not None:
        said += f", which was at most {wording.share(answer.error_share)} off at the probes that it had not seen"
    return said


def memory_document(answer: MemoryAnswer) -> str:
    about: dict[str, Any] = {"schema": MEMORY_SCHEMA, "slowtrain": __version__, **asdict(answer)}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


# -- batch


def render_batch(curve: BatchCurve, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    return "\n".join(line.rstrip() for line in _batch(curve, paper)) + "\n"


def batch_headline(curve: BatchCurve) -> str:
    own = next((p for p in curve.points if p.batch == curve.batch), None)
    on = on_device(curve)
    if curve.knee is None:
        if len(curve.points) > 1 and not curve.still_gains:
            return _not_found(curve, on)
        where = "lies beyond what was measured" if len(curve.points) > 1 else "is not known"
        return f"{_gained(curve)}{on}: the knee {where}"
    less = f"beyond it a doubling gains less than {wording.share(curve.gain_share)}"
    said = f"the knee is at batch {curve.knee:,}{on}: {less}"
    at = next(p for p in curve.points if p.batch == curve.knee)
    if own is None or own.batch == curve.knee:
        return f"{said}; that is the batch that it has" if own else said
    if own.batch < curve.knee:
        more = format_number(at.samples_per_s / own.samples_per_s, 2)
        return f"{said}; {more} times the samples a second of batch {own.batch:,}"
    return f"{said}; batch {own.batch:,} only takes more memory"


def _not_found(curve: BatchCurve, on: str) -> str:
    """Of a curve whose last doublings gained little, and of which nobody measured where that begins."""
    first, *between, last = (f"{p.batch:,}" for p in curve.points)
    batches = f"{', '.join([first, *between])} and {last}"
    less = f"no doubling gained {wording.share(curve.gain_share)}"
    return f"the knee was not found{on}: measured only batches {batches}, of which {less}"


def _gained(curve: BatchCurve) -> str:
    """Of a curve without a knee: what its doublings gained, of which one before the last may have been disturbed."""
    last = curve.points[-1]
    rates = [p.samples_per_s for p in curve.points]
    gains = [after / this - 1 for this, after in pairwise(rates)]
    if not gains:
        return f"batch {last.batch:,} alone was timed"
    if min(gains) >= curve.gain_share:
        return f"every doubling up to {last.batch:,} gained {wording.share(curve.gain_share)} or more"
    return f"the doubling to {last.batch:,} still gained {wording.share(gains[-1])}"


def knee_range(curve: BatchCurve) -> str:
    """Where the knee would lie at the ends of the intervals; empty where at both it is the same."""
    ends = [f"batch {b:,}" if b is not None else "beyond what was measured" for b in (curve.knee_low, curve.knee_high)]
    if len(curve.points) < 2 or curve.knee_low == curve.knee == curve.knee_high:
        return ""
    return f"with each gain as small as its range allows {ends[0]}, as large {ends[1]}"


def on_device(curve: BatchCurve) -> str:
    """`` on CPU: AMD EPYC``: a knee is that of the device that was timed."""
    said = wording.clean(wording.device(curve.measured_on))
    return f" on {said}" if said != wording.UNKNOWN else ""


def limit(curve: BatchCurve) -> str:
    """The largest batch that is foretold to fit; empty where no memory was meant."""
    if curve.limit_batch is None or curve.device is None:
        return ""
    return (
        f"batch {curve.limit_batch:,} on {_device(curve.device)}, by forecast: slowtrain memory tries it where it can"
    )


def _batch(curve: BatchCurve, paper: Paper) -> Iterator[str]:
    for line in paper.wrap(batch_headline(curve), paper.width):
        yield paper.style(line, "bold")
    yield ""
    yield f"{'batch':>8} {'ms/step':>9} {'samples/s':>10} {'range':>17} {'memory':>10}"
    most = max(p.samples_per_s for p in curve.points)
    for p in curve.points:
        mark = " knee" if p.batch == curve.knee else " now" if p.batch == curve.batch else ""
        bar = "#" * round(12 * p.samples_per_s / most)
        memory = wording.size(p.peak_bytes) if p.peak_bytes is not None else "–"
        yield (
            f"{p.batch:>8,} {p.step_ms:>9.4g} {rate(p.samples_per_s):>10} {f'{rate(p.low)} to {rate(p.high)}':>17} "
            f"{memory:>10} {bar}{mark}"
        )
    yield ""
    if curve.fixed_ms is not None and curve.ms_per_sample is not None:
        fixed = f"{format_number(curve.fixed_ms)} ms"
        if curve.fixed_low_ms is not None and curve.fixed_high_ms is not None:
            fixed += f" ({format_number(curve.fixed_low_ms)} to {format_number(curve.fixed_high_ms)})"
        yield from _told(
            paper, "A step: ", f"{fixed} whatever the batch, and {format_number(curve.ms_per_sample)} ms a sample"
        )
    if knee_range(curve):
        yield from _told(paper, "Knee: ", knee_range(curve))
    if limit(curve):
        yield from _told(paper, "Limit: ", limit(curve))
    if curve.ended:
        yield from _told(paper, "Ended: ", curve.ended)
    for note in curve.notes:
        yield from _told(paper, "Note: ", note)


def rate(value: float) -> str:
    """Samples a second: whole ones from a hundred on."""
    return f"{value:,.0f}" if value >= 100 else f"{format_number(value)}"


def _device(device: Device) -> str:
    return f"{device.name} ({wording.size(device.limit_bytes)})"


def batch_document(curve: BatchCurve) -> str:
    about: dict[str, Any] = {"schema": BATCH_SCHEMA, "slowtrain": __version__, **asdict(curve)}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def _told(paper: Paper, lead: str, text: str) -> Iterator[str]:
    lines = paper.wrap(wording.clean(text), paper.width - len(lead))
    for at, line in enumerate(lines):
        yield (lead if at == 0 else " " * len(lead)) + line
