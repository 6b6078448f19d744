"""Lint rule about generators that yield single small samples, which a data set batches afterwards.

It uses the interpreter's events.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules.input import slow_python, tiny_maps
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text.source_file import Source

# Calls that take no longer than yielding a sample (about 50 µs), or run once per pass.
CUTTING_FUNCTIONS = frozenset(
    "loop len range zip enumerate min max int float list tuple arange permutation shuffle default_rng integers randint "
    "choice astype copy reshape array asarray float32 int32 int64 uint8 stack concatenate seed".split()
)
READING_FUNCTIONS = frozenset({"load", "fromfile", "loadtxt", "memmap"})
MIN_NUMPY_CALLS = 2  # NumPy calls per sample, some microseconds each
FILE_MAPPING_WORDS = ("memmap", "mmap_mode", "h5py")  # arrays that read a file when a row is taken


@dataclass(frozen=True)
class SampleGenerator:
    """A generator of single samples. ``cut``: it only slices arrays in memory."""

    call: ast.Call
    given: ast.expr
    says: str
    cut: bool


def sample_generators(source: Source) -> Iterator[SampleGenerator]:
    """Find each ``from_generator`` of single small samples that are batched afterwards."""
    if "from_generator" not in source.text or any(word in source.text for word in FILE_MAPPING_WORDS):
        return
    for one in interpreted_datasets.datasets_of(source):
        made, call = one.stages[0], interpreted_datasets.stage_call(source, one.stages[0])
        if made.name != "from_generator" or call is None or "cache" in one.names or not _gives_single_samples(one):
            continue
        inside = [e for e in file_events(source) if e.producer == "generator" and any(p.node is call for p in e.loops)]
        if not inside or _has_few_samples(inside, call) or not _has_small_samples(one):
            continue
        given = next((k.value for k in call.keywords if k.arg == "generator"), call.args[0] if call.args else call)
        said = next(interpreted_datasets.element_leaves(one.stages[0].after)).name == "said"
        if all(_is_cutting_call(e) for e in inside) and not said:  # the source of a declared element is unknown
            says = "this generator hands over one sample at a time out of arrays that are in memory"
            yield SampleGenerator(call, given, says, cut=True)
        elif not said or len({e.node for e in inside if _is_numpy_work(e)}) >= MIN_NUMPY_CALLS:
            says = "Python makes one small sample after the other, and hands over each by itself"
            yield SampleGenerator(call, given, says, cut=False)


def _gives_single_samples(one: interpreted_datasets.ConsumedDataset) -> bool:
    """Whether its elements are batched, without an operation before that splits them."""
    at = next((i for i, name in enumerate(one.names) if name in interpreted_datasets.BATCHING_STAGES), None)
    return at is not None and set(one.names[1:at]) <= interpreted_datasets.SAME_ELEMENT_STAGES | {"take", "skip"}


def _is_cutting_call(event: Event) -> bool:
    """Whether a call does no work on a sample. Functions of the script are judged by their own calls."""
    if event.on is not None and event.on.kind in ("function", "method", "generator") and event.name[:1] != ".":
        return True
    return event.name.rpartition(".")[2] in CUTTING_FUNCTIONS and not event.name.startswith("tensorflow.")


def _is_numpy_work(event: Event) -> bool:
    """Whether a NumPy call works on a sample."""
    return event.name.startswith("numpy.") and event.name.rpartition(".")[2] not in READING_FUNCTIONS


def _has_few_samples(inside: list[Event], call: ast.Call) -> bool:
    """Whether the loops certainly end after few samples."""
    counts = []
    for event in inside:
        if event.begun is not None:
            depth = next(i for i, one in enumerate(event.loops) if one.node is call)
            turns = [one.turns for one in event.loops[depth + 1 :]]
            counts.append(prod(n or slow_python.MIN_SAMPLES for n in turns))
    return not counts or max(counts) < slow_python.MIN_SAMPLES


def _has_small_samples(one: interpreted_datasets.ConsumedDataset) -> bool:
    """Whether its first part is known to be a few thousand numbers. The other parts are mostly labels."""
    first = next(interpreted_datasets.element_leaves(one.stages[0].after))
    count = interpreted_datasets.element_numbers(first, batched=False)
    return count is not None and bool(first.shape) and tiny_maps.MIN_NUMBERS <= count <= tiny_maps.MAX_NUMBERS
