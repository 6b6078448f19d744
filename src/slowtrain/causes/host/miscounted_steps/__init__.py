"""An epoch goes over the data many times."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from math import ceil, prod

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import syntax_tree
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.spots.host import counting
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import source_tree
from slowtrain.trace.signals.host.source_lines import called_name
from slowtrain.trace.signals.input.dataset_caches import datasets_up_to
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Skip

LIKE_SAMPLES = (0.75, 1.05)  # steps an epoch that are samples, of the whole set or of the part left for training
MOST_BATCH = 1 << 20
CHOOSING = "DirectedInterleave"  # of sample_from_datasets and choose_from_datasets: its first input chooses


@dataclass(frozen=True)
class Miscount:
    """``passes`` over the data in what was meant as one epoch, for the reason ``why``."""

    fit: Event
    passes: float
    why: str
    kind: str
    place: Place | None = None


class MiscountedSteps(Cause[Evidence]):
    """An epoch goes over the data many times, because its steps are counted wrongly."""

    title = "an epoch goes over the data many times"
    needs = frozenset({Signal.CALLS, Signal.PHASES, Signal.STEPS})
    scope = "run"
    words = ("steps_per_epoch", "validation_steps", "repeat")
    beside = (".fit", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> Evidence | None:
        found = _miscounts(trace)
        if not found:
            return None
        worst = max(found, key=lambda m: m.fit.ms * (1 - 1 / m.passes))
        places = [p for p in (worst.fit.place, worst.place) if p is not None]
        if worst.kind == "repeat":
            places.reverse()
        return Evidence(worst.why, {"passes": worst.passes, "fit_ms": worst.fit.ms}, tuple(dict.fromkeys(places)))

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        saved = 0.0
        for one in _miscounts(trace):
            once = [e for lane in ("trace", "window") for e in trace.events_of(lane) if _inside(e, one.fit)]
            saved += max(one.fit.ms - sum(e.ms for e in once), 0.0) * (1 - 1 / one.passes)
        # Beginning and ending an epoch is paid either way.
        return [Skip(saved, spread=(0.85, 1.0))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        kinds = {m.kind for m in _miscounts(trace)}
        if "steps" in kinds:
            says = "give steps_per_epoch in batches: samples // batch_size"
            found = measured.first(trace, evidence.where, kerascalls.counted_in_batches)
            yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=found)
        if "length" in kinds:
            length = "let __len__ return the number of batches, ceil(samples / batch_size)"
            yield Prescription("edit", Effect.CHANGES_TRAINING, length)
        if "repeat" in kinds:
            says = "take .repeat(n) out of the data set, or run one epoch"
            found = measured.first(trace, evidence.where, kerascalls.unrepeated)
            yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=found)


def _miscounts(trace: Trace) -> list[Miscount]:
    found = []
    for fit in trace.events_of("loop"):
        if fit.name == "fit" and not fit.data.get("nested"):
            one = _in_samples(trace, fit) or _in_other_batches(trace, fit) or _repeated(trace, fit)
            if one is not None and one.passes >= 1.5:
                found.append(one)
    return found


def _in_samples(trace: Trace, fit: Event) -> Miscount | None:
    """Steps an epoch that equal the samples."""
    given = fit.data.get("data") or {}
    length = given.get("length")
    steps = fit.data.get("steps_per_epoch") or length
    if not steps:
        return None
    pipe = trace.pipeline
    batch = _batch(trace, pipe)
    if not 1 < batch < MOST_BATCH:
        return None
    sizes = [int(a["length"]) for a in (given.get("arrays") or {}).values() if a.get("length")]
    sizes += _cardinalities(pipe)
    # Of several arrays that of the samples is the one that so many steps can have been counted from.
    like = [n for n in sizes if LIKE_SAMPLES[0] * n <= steps <= LIKE_SAMPLES[1] * n and n > batch]
    if not like:
        return None
    samples = max(like)
    passes = steps / ceil(samples / batch)
    if fit.data.get("steps_per_epoch"):
        why = (
            f"steps_per_epoch={steps} is the number of samples ({samples}): "
            f"with {batch} a batch each epoch is {format_number(passes)} passes over the data"
        )
        return Miscount(fit, passes, why, "steps")
    place = (given.get("generator") or {}).get("file"), (given.get("generator") or {}).get("line")
    written = Place(str(place[0]), int(place[1])) if place[0] and place[1] else None
    why = (
        f"the Sequence gives its {steps} samples as its length: "
        f"with {batch} a batch each epoch is {format_number(passes)} passes over the data"
    )
    return Miscount(fit, passes, why, "length", written)


def _in_other_batches(trace: Trace, fit: Event) -> Miscount | None:
    """Steps an epoch that are the batches of another, smaller size: the one of ``batch()`` was changed alone."""
    steps, pipe = int(fit.data.get("steps_per_epoch") or 0), trace.pipeline
    batch = _batch(trace, pipe)
    for samples in _cardinalities(pipe) if _divides(trace, fit) else ():
        other = counting.other_batch(steps, samples, batch)
        if other and batch < MOST_BATCH:
            passes = steps * batch / samples
            why = (
                f"steps_per_epoch={steps} counts batches of {other}, and the data set makes them of {batch}: "
                f"each epoch is {format_number(passes)} passes over {samples} samples"
            )
            return Miscount(fit, passes, why, "steps")
    return None


def _divides(trace: Trace, fit: Event) -> bool:
    """Whether the number of steps is written as a quotient: one that just stands there is as many as are wanted."""
    place = fit.place
    text = recorded_source(trace, place.file) if place is not None else None
    if place is None or text is None:
        return False
    around = [
        c for c in call_index.index_of(text).called("fit") if c.lineno <= place.line <= (c.end_lineno or c.lineno)
    ]
    return any(counting.divided(text, node_lookup.argument_value(call, "steps_per_epoch")) for call in around)


def _repeated(trace: Trace, fit: Event) -> Miscount | None:
    """A data set that repeats itself under a fit that repeats it again."""
    epochs = int(fit.data.get("epochs") or 1)
    pipe = trace.pipeline
    if fit.data.get("steps_per_epoch") or epochs < 2 or pipe is None:
        return None
    repeats = [w for w in pipe.written if w.family == "Repeat" and w.place and int(w.detail.get("count") or -1) > 1]
    repeats = [w for w in repeats if _means_epochs(trace, w, fit)]
    if not repeats:
        return None
    times = prod(int(w.detail["count"]) for w in repeats)
    why = (
        f"the data set repeats itself {times} times and fit runs {epochs} epochs of that: "
        f"{times * epochs} passes over the data"
    )
    return Miscount(fit, float(times), why, "repeat", repeats[-1].place)


def _means_epochs(trace: Trace, repeat: WrittenDataset, fit: Event) -> bool:
    """Whether the repeat count is the number of epochs: the same number, or made from the same name in the source."""
    if int(repeat.detail["count"]) == int(fit.data.get("epochs") or 1):
        return True
    if repeat.place is None or fit.place is None:
        return False
    counts = _names(trace, repeat.place, "repeat", "count")
    return bool(counts & _names(trace, fit.place, "fit", "epochs"))


def _names(trace: Trace, place: Place, method: str, argument: str) -> set[str]:
    """Names in one argument of the call of ``method`` at a line; the first positional one is taken for ``count``."""
    tree = source_tree(trace, place.file)
    found: set[str] = set()
    for call in (n for n in syntax_tree.walk(tree) if isinstance(n, ast.Call)) if tree is not None else ():
        if called_name(call) == method and call.lineno <= place.line <= (call.end_lineno or call.lineno):
            values = [k.value for k in call.keywords if k.arg == argument]
            values += call.args[:1] if argument == "count" else []
            found |= {n.id for v in values for n in syntax_tree.walk(v) if isinstance(n, ast.Name)}
    return found


def _batch(trace: Trace, pipe: Pipeline | None) -> int:
    """Samples a step: of nested batches their product; of a generator what its bytes tell."""
    batches = [w.detail.get("batch_size") for w in _of_data(pipe) if w.family == "Batch"] if pipe else []
    sizes = [int(b) for b in batches if b]
    if sizes:
        return prod(sizes)
    if pipe is not None and pipe.nodes and pipe.written:
        made = [n.bytes_produced for n in pipe.nodes if n.bytes_produced > 0]
        row = _row_bytes(pipe.written[-1])
        if made and row:
            return max(round(made[-1] / row), 1)
    known = trace.steps.size[trace.steps.size > 0]
    return int(known.max()) if len(known) else 0


def _row_bytes(node: WrittenDataset) -> int:
    """Bytes of one sample of batches whose first dimension is open; 0 where a shape is not known."""
    total = 0
    for part in node.detail.get("element") or ():
        shape = part.get("shape")
        if not shape or any(d is None for d in shape[1:]):
            return 0
        total += prod(shape[1:]) * int(part.get("bytes") or 0)
    return total


def _cardinalities(pipe: Pipeline | None) -> list[int]:
    """Sizes of the sources, and arrays that a generator in the pipeline refers to.

    Of sources of which each gives a part of the samples (one behind the other, or by choice) their sum.
    """
    found: list[int] = []
    written = _of_data(pipe) if pipe is not None else []
    for node in written:
        if not node.inputs and (node.detail.get("cardinality") or 0) > 1:
            found.append(int(node.detail["cardinality"]))
        arrays = (node.detail.get("python") or {}).get("arrays") or {}
        found += [int(a["length"]) for a in arrays.values() if a.get("length")]
    return [sum(found)] if any(w.family in ("Concatenate", CHOOSING) for w in written) else found


def _of_data(pipe: Pipeline) -> list[WrittenDataset]:
    """What samples go through: not what chooses the data set that the next one comes from."""
    aside = datasets_up_to(pipe, [pipe.written[w.inputs[0]] for w in pipe.written if w.family == CHOOSING and w.inputs])
    return [w for i, w in enumerate(pipe.written) if i not in aside]


def _inside(event: Event, fit: Event) -> bool:
    return fit.start_ms <= event.start_ms <= fit.end_ms
