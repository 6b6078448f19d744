"""What cheaper models do to a step, to memory and to the loss, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, field

from slowtrain import __version__
from slowtrain.model import Attribution, Chart, Part
from slowtrain.model.measurements import Range
from slowtrain.model.shrinking import Alternative, InferenceForm, LayerShare, LossPoint, Shrinking, Unmeasured
from slowtrain.number_text import format_count
from slowtrain.report import charts, wording
from slowtrain.report.documents import Count, Tool, build_document, json_text
from slowtrain.report.terminal import Terminal, joined_lines, readable_width

SCHEMA = "slowtrain.shrink/1"
NAME_COLUMNS = 20
LAYER_COLOURS = ("device", "python", "input", "callback", "dispatch", "d2h")  # of the page, the largest layer first
MAX_DRAWN_LOSS = 1.25  # times the highest loss of the model as it is, measured from its lowest: more is cut
HEAD = f"  {'':{NAME_COLUMNS}}{'step':>9}{'samples/s':>10}{'memory':>9}{'weights':>8}{'loss':>8}  to the loss"
INFERENCE_HEAD = f"  {'':{NAME_COLUMNS}}{'size':>10}{'batch':>9}   speed, change of outputs, training"


def shrink_text(found: Shrinking, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then where the time goes, a row for each alternative, and the forms for inference."""
    return joined_lines(_text_lines(found, Terminal(readable_width(width), colour, unicode)))


def shrink_headline(found: Shrinking) -> str:
    """Which alternative reaches the loss of the script's own model soonest, if that is certain."""
    certain = [a for a in found.alternatives[1:] if a.sooner is not None and a.sooner.low > 1]
    if certain:
        best = max(certain, key=lambda a: a.sooner.value if a.sooner is not None else 0.0)
        assert best.sooner is not None
        return f"{best.name} reaches the loss of the model as it is {range_text(best.sooner)} times as soon"
    if found.target_loss is None:
        fast = [a for a in found.alternatives[1:] if a.speedup.low > 1]
        if not fast:
            return "nothing that was tried is faster for certain, and the losses could not be compared"
        best = max(fast, key=lambda a: a.speedup.value)
        return f"{best.name} is {range_text(best.speedup)} times as fast, but the losses could not be compared"
    return "nothing that was tried reaches the loss of the model as it is sooner for certain"


def range_text(found: Range) -> str:
    if not math.isfinite(found.high):
        return f"{found.value:.2f} (no interval: too few rounds)"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def reached_text(found: Shrinking, one: Alternative) -> str:
    """The seconds of training until the loss that the model as it is ends with."""
    if found.target_loss is None:
        return "-"
    return "not reached" if one.reached_s is None else wording.duration_text(1e3 * one.reached_s)


def gain_text(one: Alternative) -> str:
    """How many times as fast a sample is, and how many times as soon the loss is reached."""
    faster = f"a sample {range_text(one.speedup)} times as fast"
    return f"{faster}, the loss {range_text(one.sooner)} times as soon" if one.sooner is not None else faster


def rows_by_gain(found: Shrinking) -> list[Alternative]:
    """The model as it is, then what reaches its loss, the soonest first, then the rest by speed."""
    own, *rest = found.alternatives
    return [own, *sorted(rest, key=lambda a: (a.reached_s is None, a.reached_s or 0.0, -a.speedup.value))]


def loss_text(one: Alternative) -> str:
    return wording.number_text(one.loss) if one.loss is not None else "-"


def trainable_text(one: InferenceForm) -> str:
    if one.trainable is None:
        return "cannot be trained"
    return f"{wording.share_text(one.trainable)} of the parameters can be trained"


def layers_text(layers: tuple[LayerShare, ...]) -> str:
    return ", ".join(f"{one.name} {wording.share_text(one.share)}" for one in layers)


def layer_segments(found: Shrinking) -> list[charts.Stretch]:
    """The layers as segments of one bar, with the rest of the step."""
    colours = {LAYER_COLOURS[at % len(LAYER_COLOURS)]: one for at, one in enumerate(found.layers[: len(LAYER_COLOURS)])}
    parts = [Part(colour, one.share, one.share) for colour, one in colours.items()]
    rest = max(1 - sum(one.share for one in colours.values()), 0.0)
    whole = Attribution(1.0, (*parts, Part("unattributed", rest, rest)))
    names = {colour: (one.name, "") for colour, one in colours.items()} | {"unattributed": ("the rest", "")}
    return charts.bar_segments(whole, names.__getitem__, lambda _share, _whole: "of the time of all ops")


def loss_plots(found: Shrinking) -> list[tuple[str, charts.Plot]]:
    """The loss over the time of training, one chart for each alternative beside the model as it is, on one scale."""
    own, *others = rows_by_gain(found)
    drawn = [one for one in others if one.curve]
    if not own.curve or not drawn:
        return []
    lowest, highest = min(p.low for p in own.curve), max(p.high for p in own.curve)
    low = min(lowest, *(p.low for one in drawn for p in one.curve))
    most = lowest + MAX_DRAWN_LOSS * (highest - lowest)
    high = min(max(highest, *(p.high for one in drawn for p in one.curve)), most)
    seconds = max(one.curve[-1].seconds for one in (own, *drawn))
    chart = Chart("Loss over time", "s", "", (), ())
    return [
        (
            one.name,
            charts.panel_plot(chart, [_drawn_curve(own), _drawn_curve(one)], seconds, (low, high), found.target_loss),
        )
        for one in drawn
    ]


def _drawn_curve(one: Alternative) -> charts.Curve:
    return charts.Curve(one.name, [(p.seconds, p.low, p.loss, p.high) for p in one.curve], ())


def conditions_text(found: Shrinking) -> str:
    """How it was measured."""
    took = wording.duration_text(1e3 * found.seconds)
    counted = format_count(found.rounds, "round")
    rounds = f"{counted}, each with another seed, all alternatives in turn; {took} in all"
    if found.samples is None:
        return f"{rounds}. Losses could not be compared."
    return (
        f"{rounds}. Losses are compared after {found.samples:,} samples, where the model as it is has "
        f"{wording.number_text(found.target_loss)}: the time to the loss is that of steps until then"
    )


def _text_lines(found: Shrinking, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", shrink_headline(found), style="bold")
    if found.layers:
        yield from out.section("Where the time of a step goes")
        yield from out.hanging("  ", layers_text(found.layers))
    yield from out.section("Training: nothing is written, each row is a run of the changed model")
    yield out.style(HEAD, "dim")
    for one in rows_by_gain(found):
        yield out.fit_end(f"  {out.column(one.name, NAME_COLUMNS)}{_figures(one)}  ", reached_text(found, one))
    yield ""
    for one in rows_by_gain(found)[1:]:
        says = f"{one.says} ({wording.effect_words(one.effect)}): {gain_text(one)}"
        yield from out.hanging(f"  {one.name}: ", says, indent=4)
    if found.inference:
        yield from out.section("Inference is another question: these forms make nothing of the training faster")
        yield out.style(INFERENCE_HEAD, "dim")
        for form in found.inference:
            start = (
                f"  {out.column(form.name, NAME_COLUMNS)}{wording.bytes_text(form.bytes):>10}"
                f"{wording.duration_text(form.ms):>9}   "
            )
            says = f"{range_text(form.speedup)}x, {wording.share_text(form.difference)}, {trainable_text(form)}"
            yield from out.hanging(start, says)
    if found.unmeasured:
        yield from out.section("Not measured")
        for lacking in found.unmeasured:
            yield from out.hanging(f"  {lacking.name}: ", lacking.why, indent=4, lines=3)
    for note in (*found.notes, conditions_text(found)):
        yield ""
        yield from out.hanging("Note: ", note, lines=6)


def _figures(one: Alternative) -> str:
    rate = wording.number_text(one.samples_per_s) if one.samples_per_s is not None else "-"
    memory = wording.bytes_text(one.peak_bytes) if one.peak_bytes is not None else "-"
    return f"{wording.duration_text(one.step_ms):>9}{rate:>10}{memory:>9}{weights_text(one):>8}{loss_text(one):>8}"


def weights_text(one: Alternative) -> str:
    """The number of parameters, in thousands or millions."""
    if one.parameters is None:
        return "-"
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if one.parameters >= scale:
            return f"{one.parameters / scale:.3g}{unit}"
    return str(one.parameters)


class AlternativeDocument(Struct):
    name: str
    says: str
    effect: str
    step_ms: float
    samples_per_s: float | None = field(name="samples_per_second")
    speedup: Range
    peak_bytes: Count | None
    parameters: Count | None
    loss: float | None
    reached_s: float | None = field(name="seconds_to_loss")
    sooner: Range | None = field(name="sooner_by")
    curve: tuple[LossPoint, ...]


class ShrinkDocument(Struct):
    """What slowtrain shrink --json writes. The first alternative is the model as it is."""

    schema: Literal["slowtrain.shrink/1"]
    tool: Tool
    says: str
    script: str
    command: tuple[str, ...]
    source_sha256: str | None
    measured_on: Mapping[str, str | None]
    layers: tuple[LayerShare, ...]
    alternatives: tuple[AlternativeDocument, ...]
    inference: tuple[InferenceForm, ...]
    unmeasured: tuple[Unmeasured, ...]
    samples: Count | None
    target_loss: float | None
    rounds: Count
    seconds: float
    notes: tuple[str, ...]


def shrink_json(found: Shrinking) -> str:
    about = {"schema": SCHEMA, "tool": {"version": __version__}, "says": shrink_headline(found)}
    return json_text(build_document(ShrinkDocument, found, **about))
