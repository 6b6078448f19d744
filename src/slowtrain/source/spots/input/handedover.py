"""Generators that cut samples out of arrays in memory, one by one, of which a data set makes batches afterwards.

Found by what the script does: wherever the data comes from, and whatever calls the generator.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.input import slowpython, tiny
from slowtrain.values import dataclass

# What takes no longer than handing a sample over does (some 50 µs), or is done once a pass.
CUTTING = frozenset(
    "loop len range zip enumerate min max int float list tuple arange permutation shuffle default_rng integers randint "
    "choice astype copy reshape array asarray float32 int32 int64 uint8 stack concatenate seed".split()
)
READING = frozenset({"load", "fromfile", "loadtxt", "memmap"})
WORKING = 2  # calls of NumPy's for a sample: some microseconds each, beside handing it over
MAPPED = ("memmap", "mmap_mode", "h5py")  # what reads a file where a row is taken


@dataclass(frozen=True)
class Handed:
    """``cut``: out of arrays that are in memory, where no more is done to a sample."""

    call: ast.Call
    given: ast.expr
    says: str
    cut: bool


def generators(source: Source) -> Iterator[Handed]:
    """Each ``from_generator`` of single small samples, of which batches are made afterwards."""
    if "from_generator" not in source.text or any(word in source.text for word in MAPPED):
        return
    for one in interpreted_datasets.datasets_of(source):
        made, call = one.stages[0], interpreted_datasets.stage_call(source, one.stages[0])
        if made.name != "from_generator" or call is None or "cache" in one.names or not _single(one):
            continue
        inside = [e for e in file_events(source) if e.producer == "generator" and any(p.node is call for p in e.loops)]
        if not inside or _few(inside, call) or not _small(one):
            continue
        given = next((k.value for k in call.keywords if k.arg == "generator"), call.args[0] if call.args else call)
        said = next(interpreted_datasets.element_leaves(one.stages[0].after)).name == "said"
        if all(_cuts(e) for e in inside) and not said:  # of what is said alone nobody knows where it comes from
            says = "this generator hands over one sample at a time out of arrays that are in memory"
            yield Handed(call, given, says, cut=True)
        elif not said or len({e.node for e in inside if _works(e)}) >= WORKING:
            says = "Python makes one small sample after the other, and hands over each by itself"
            yield Handed(call, given, says, cut=False)


def _single(one: interpreted_datasets.ConsumedDataset) -> bool:
    """Whether batches are made of what it gives, with nothing before that takes elements apart."""
    at = next((i for i, name in enumerate(one.names) if name in interpreted_datasets.BATCHING_STAGES), None)
    return at is not None and set(one.names[1:at]) <= interpreted_datasets.SAME_ELEMENT_STAGES | {"take", "skip"}


def _cuts(event: Event) -> bool:
    """Whether a call does not work on a sample; the script's own functions are seen by what they call."""
    if event.on is not None and event.on.kind in ("function", "method", "generator") and event.name[:1] != ".":
        return True
    return event.name.rpartition(".")[2] in CUTTING and not event.name.startswith("tensorflow.")


def _works(event: Event) -> bool:
    """Whether NumPy works on a sample."""
    return event.name.startswith("numpy.") and event.name.rpartition(".")[2] not in READING


def _few(inside: list[Event], call: ast.Call) -> bool:
    """Whether the loops surely are over after few samples."""
    counts = []
    for event in inside:
        if event.begun is not None:
            depth = next(i for i, one in enumerate(event.loops) if one.node is call)
            turns = [one.turns for one in event.loops[depth + 1 :]]
            counts.append(prod(n or slowpython.FEW_SAMPLES for n in turns))
    return not counts or max(counts) < slowpython.FEW_SAMPLES


def _small(one: interpreted_datasets.ConsumedDataset) -> bool:
    """Whether its first part, the others being labels mostly, is known to be a few thousand numbers of an array."""
    first = next(interpreted_datasets.element_leaves(one.stages[0].after))
    count = interpreted_datasets.element_numbers(first, batched=False)
    return count is not None and bool(first.shape) and tiny.LEAST_NUMBERS <= count <= tiny.MOST_NUMBERS
