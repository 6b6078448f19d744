"""An epoch goes over the data many times."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import ceil, prod

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.columns.spans import Event
from slowtrain.model import Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.text import syntax_tree
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.source_lines import called_name, source_tree
from slowtrain.whatif import Remedy, Skip

SAMPLES_SHARE_RANGE = (0.75, 1.05)  # steps of an epoch over samples of the whole set, or of the part for training
MIN_PASSES = 1.5
SmallerBatch = Callable[[Trace, Event, int, int], int]
MAX_BATCH = 1 << 20
CHOICE_STAGE = "DirectedInterleave"  # of sample_from_datasets and choose_from_datasets: its first input chooses


class Miscount(Struct, frozen=True):
    """A fit with ``passes`` over the data in each intended epoch, and the reason."""

    fit: Event
    passes: float
    says: str
    kind: str
    place: Place | None = None


class MiscountFinding(Struct, frozen=True):
    """At least one miscount."""

    miscounts: tuple[Miscount, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        worst = self.worst
        places = [p for p in (worst.fit.place, worst.place) if p is not None]
        return tuple(dict.fromkeys(reversed(places) if worst.kind == "repeat" else places))

    @property
    def worst(self) -> Miscount:
        return max(self.miscounts, key=lambda m: m.fit.ms * (1 - 1 / m.passes))


class MiscountedSteps(Cause[MiscountFinding]):
    """An epoch goes over the data many times, because its steps are counted wrongly."""

    title = "An epoch goes over the data many times"
    needs = frozenset({Signal.CALLS, Signal.PHASES, Signal.STEPS})
    scope = "run"
    words = ("steps_per_epoch", "validation_steps", "repeat")
    context_words = (".fit", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> MiscountFinding | None:
        found = _miscounted_fits(trace, self._smaller_batch)
        return MiscountFinding(tuple(found)) if found else None

    def _smaller_batch(self, trace: Trace, fit: Event, samples: int, batch: int) -> int:
        """The smaller batch size that the text of ``fit`` counts; 0 if there is none."""
        size: int = self.folder_module("fix").smaller_batch(trace, fit, samples, batch)
        return size

    def evidence(self, trace: Trace, finding: MiscountFinding) -> Evidence:
        worst = finding.worst
        return Evidence(worst.says, {"passes": worst.passes, "fit_ms": worst.fit.ms}, finding.places)

    def remedies(self, trace: Trace, finding: MiscountFinding) -> Sequence[Remedy]:
        saved = 0.0
        for one in finding.miscounts:
            once = [e for lane in ("trace", "window") for e in trace.events_of(lane) if _starts_inside(e, one.fit)]
            saved += max(one.fit.ms - sum(e.ms for e in once), 0.0) * (1 - 1 / one.passes)
        # The start and end of an epoch are paid either way.
        return [Skip(saved, spread=(0.85, 1.0))]


def _miscounted_fits(trace: Trace, smaller_batch: SmallerBatch) -> list[Miscount]:
    found = []
    for fit in trace.events_of("loop"):
        if fit.name == "fit" and not fit.data.get("nested"):
            one = (
                _counted_in_samples(trace, fit)
                or _counted_in_other_batches(trace, fit, smaller_batch)
                or _repeated_data(trace, fit)
            )
            if one is not None and one.passes >= MIN_PASSES:
                found.append(one)
    return found


def _counted_in_samples(trace: Trace, fit: Event) -> Miscount | None:
    """A fit whose steps per epoch equal the number of samples."""
    given = fit.data.get("data") or {}
    length = given.get("length")
    steps = fit.data.get("steps_per_epoch") or length
    if not steps:
        return None
    pipe = trace.pipeline
    batch = _samples_per_step(trace, pipe)
    if not 1 < batch < MAX_BATCH:
        return None
    sizes = [int(a["length"]) for a in (given.get("arrays") or {}).values() if a.get("length")]
    sizes += _source_sizes(pipe)
    # Of several arrays, the longest that matches the number of steps is the one with the samples.
    like = [n for n in sizes if SAMPLES_SHARE_RANGE[0] * n <= steps <= SAMPLES_SHARE_RANGE[1] * n and n > batch]
    if not like:
        return None
    samples = max(like)
    passes = steps / ceil(samples / batch)
    if fit.data.get("steps_per_epoch"):
        says = (
            f"steps_per_epoch={steps} is the number of samples ({samples}): "
            f"with {batch} a batch each epoch is {format_number(passes)} passes over the data"
        )
        return Miscount(fit, passes, says, "steps")
    place = (given.get("generator") or {}).get("file"), (given.get("generator") or {}).get("line")
    written = Place(str(place[0]), int(place[1])) if place[0] and place[1] else None
    says = (
        f"the Sequence gives its {steps} samples as its length: "
        f"with {batch} a batch each epoch is {format_number(passes)} passes over the data"
    )
    return Miscount(fit, passes, says, "length", written)


def _counted_in_other_batches(trace: Trace, fit: Event, smaller_batch: SmallerBatch) -> Miscount | None:
    """A fit whose steps per epoch count batches of a smaller size than ``batch()`` makes."""
    steps, pipe = int(fit.data.get("steps_per_epoch") or 0), trace.pipeline
    batch = _samples_per_step(trace, pipe)
    for samples in _source_sizes(pipe) if batch < MAX_BATCH else ():
        other = smaller_batch(trace, fit, samples, batch)
        if other:
            passes = steps * batch / samples
            says = (
                f"steps_per_epoch={steps} counts batches of {other}, but the data set makes batches of {batch}: "
                f"each epoch is {format_number(passes)} passes over {samples} samples"
            )
            return Miscount(fit, passes, says, "steps")
    return None


def _repeated_data(trace: Trace, fit: Event) -> Miscount | None:
    """A fit with epochs over a data set that repeats itself."""
    epochs = int(fit.data.get("epochs") or 1)
    pipe = trace.pipeline
    if fit.data.get("steps_per_epoch") or epochs < 2 or pipe is None:
        return None
    repeats = [w for w in pipe.written if w.family == "Repeat" and w.place and int(w.detail.get("count") or -1) > 1]
    repeats = [w for w in repeats if _means_epochs(trace, w, fit)]
    if not repeats:
        return None
    times = prod(int(w.detail["count"]) for w in repeats)
    says = (
        f"the data set repeats itself {times} times and fit runs {epochs} epochs of that: "
        f"{times * epochs} passes over the data"
    )
    return Miscount(fit, float(times), says, "repeat", repeats[-1].place)


def _means_epochs(trace: Trace, repeat: WrittenDataset, fit: Event) -> bool:
    """Whether the repeat count is the number of epochs: the same number, or made from the same name in the source."""
    if int(repeat.detail["count"]) == int(fit.data.get("epochs") or 1):
        return True
    if repeat.place is None or fit.place is None:
        return False
    counts = _argument_names(trace, repeat.place, "repeat", "count")
    return bool(counts & _argument_names(trace, fit.place, "fit", "epochs"))


def _argument_names(trace: Trace, place: Place, method: str, argument: str) -> set[str]:
    """Names in one argument of the call of ``method`` at a line; the first positional one is taken for ``count``."""
    tree = source_tree(trace, place.file)
    found: set[str] = set()
    for call in (n for n in syntax_tree.walk(tree) if isinstance(n, ast.Call)) if tree is not None else ():
        if called_name(call) == method and call.lineno <= place.line <= (call.end_lineno or call.lineno):
            values = [k.value for k in call.keywords if k.arg == argument]
            values += call.args[:1] if argument == "count" else []
            found |= {n.id for v in values for n in syntax_tree.walk(v) if isinstance(n, ast.Name)}
    return found


def _samples_per_step(trace: Trace, pipe: Pipeline | None) -> int:
    """Samples in a step: the product of nested batches, or by the bytes that a generator yields."""
    batches = [w.detail.get("batch_size") for w in _sample_stages(pipe) if w.family == "Batch"] if pipe else []
    sizes = [int(b) for b in batches if b]
    if sizes:
        return prod(sizes)
    if pipe is not None and pipe.nodes and pipe.written:
        made = [n.bytes_produced for n in pipe.nodes if n.bytes_produced > 0]
        row = _sample_bytes(pipe.written[-1])
        if made and row:
            return max(round(made[-1] / row), 1)
    known = trace.steps.size[trace.steps.size > 0]
    return int(known.max()) if len(known) else 0


def _sample_bytes(node: WrittenDataset) -> int:
    """Bytes of one sample of batches whose first dimension is open; 0 if a shape is not known."""
    total = 0
    for part in node.detail.get("element") or ():
        shape = part.get("shape")
        if not shape or any(d is None for d in shape[1:]):
            return 0
        total += prod(shape[1:]) * int(part.get("bytes") or 0)
    return total


def _source_sizes(pipe: Pipeline | None) -> list[int]:
    """Sizes of the sources, and of arrays that a generator in the pipeline refers to.

    If sources are concatenated or chosen from, so that each gives a part of the samples, it is their sum.
    """
    found: list[int] = []
    written = _sample_stages(pipe) if pipe is not None else []
    for node in written:
        if not node.inputs and (node.detail.get("cardinality") or 0) > 1:
            found.append(int(node.detail["cardinality"]))
        arrays = (node.detail.get("python") or {}).get("arrays") or {}
        found += [int(a["length"]) for a in arrays.values() if a.get("length")]
    return [sum(found)] if any(w.family in ("Concatenate", CHOICE_STAGE) for w in written) else found


def _sample_stages(pipe: Pipeline) -> list[WrittenDataset]:
    """Stages that samples pass, without those that choose the data set of the next sample."""
    choosing = [pipe.written[w.inputs[0]] for w in pipe.written if w.family == CHOICE_STAGE and w.inputs]
    excluded = pipe.datasets_up_to(choosing)
    return [w for i, w in enumerate(pipe.written) if i not in excluded]


def _starts_inside(event: Event, fit: Event) -> bool:
    return fit.start_ms <= event.start_ms <= fit.end_ms
