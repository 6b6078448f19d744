"""A shuffle buffer of decoded samples eats the host's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.source.spots.input import shuffling, staged
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import free_host_bytes
from slowtrain.trace.signals.input.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip

LEAST_BYTES = 2**30  # visible in text: a quarter of the memory of a small machine, 4 GiB
LARGE = 0.25  # of the memory that the buffer and what was left free make together


class OversizedShuffle(Cause):
    """A shuffle buffer holds so many whole samples that it takes a large part of the host's memory.

    ## What it means
    `shuffle(n)` keeps `n` elements as they are at that point of the pipeline: decoded pictures in
    float32 take four times the memory of uint8 and often fifty times that of the file. Memory that
    is gone is missing for the page cache, and a container that runs out is killed.

    ## How it is recognised
    The bytes that the running `shuffle` node held, against those and the least memory that was
    free: more than a quarter. The time it costs is that of filling it at each epoch's start.

    ## What to do
    Shuffle before decoding: file names, record indices or encoded bytes. Or shuffle uint8 and
    convert after it, or make the buffer smaller.

    ## When it is not worth it
    When the memory is free anyway and epochs are long.
    """

    title = "The shuffle buffer is oversized"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE, Signal.MACHINE})
    words = (".shuffle",)

    def examine(self, trace: Trace) -> Evidence | None:
        node, free = _largest(trace), free_host_bytes(trace)
        if node is None or free is None or node.buffered_bytes < LARGE * (node.buffered_bytes + free):
            return None
        return Evidence(
            f"the shuffle buffer held {format_number(node.buffered_bytes / 2**20)} MiB, "
            f"{format_number(free / 2**20)} MiB were left free",
            {"buffer_bytes": node.buffered_bytes, "free_bytes": free},
            (node.written.place,) if node.written and node.written.place else (),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = find_shuffle_fill(trace)
        if found is None:
            return []
        inside = max(found.step_ms - found.overlapped_ms, 0.0)
        return [Drop({Category.INPUT: inside}), Skip(found.outside_ms)]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the run where the wait lies between the steps."""
        found = find_shuffle_fill(trace)
        return "run" if found is not None and found.step_ms <= 0 else "step"

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = measured.first(trace, evidence.where, datasets.shuffled_first)
        yield Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=found)
        yield Prescription("edit", Effect.CHANGES_TRAINING, "make the buffer smaller")

    def spot(self, source: Source) -> Iterable[Spot]:
        """A buffer behind a map that makes floats, as large as literals of the file say."""
        known = {one.call: one.bytes or 0 for one in shuffling.behind_maps(source)}
        for more, size in staged.large(source):
            known[more.call] = known.get(more.call) or size
        for call, size in known.items():
            if size < LEAST_BYTES:
                continue
            made = tuple(datasets.shuffled_first(source, edits.node_end(call.func)[0]))
            cure = Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=made)
            says = f"this buffer holds {format_number(size / 2**30, 2)} GiB of what a map in front of it makes"
            yield Spot(*call_index.operation_range(call), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x = np.zeros((3000, 256, 256, 3), dtype=np.uint8)
        ds = tf.data.Dataset.from_tensor_slices(x)
        ds = ds.map(lambda x: (tf.cast(x, tf.float32) / 255.0, 0.0), num_parallel_calls=4).shuffle(3000)
        ds = ds.batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x = np.zeros((3000, 256, 256, 3), dtype=np.uint8)
        ds = tf.data.Dataset.from_tensor_slices(x)
        ds = ds.shuffle(3000).map(lambda x: (tf.cast(x, tf.float32) / 255.0, 0.0), num_parallel_calls=4)
        ds = ds.batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
        ),
    )

    fires = (
        """
        step    111111111111111111111111111111112345678
        input   iiiiiiiiiiiiiiiiiiiiiiiiiiiiii.........
        device  ..............................kkkkkkkkk
        @steps block=8
        @sample available_bytes=4000000000
        @pipeline Slices ms=0.1 elements=64 > ParallelMapV2 ms=8 elements=64 parallelism=2 line=12
        > Shuffle ms=0.1 elements=16 line=13 buffered_bytes=6000000000 > Batch ms=0.1 line=14 > Prefetch
        """,
    )
    quiet = (
        """
        step    111111111111111111111111111111112345678
        input   iiiiiiiiiiiiiiiiiiiiiiiiiiiiii.........
        device  ..............................kkkkkkkkk
        @steps block=8
        @sample available_bytes=40000000000
        @pipeline Slices ms=0.1 elements=64 > ParallelMapV2 ms=8 elements=64 parallelism=2 line=12
        > Shuffle ms=0.1 elements=16 line=13 buffered_bytes=600000000 > Batch ms=0.1 line=14 > Prefetch
        """,
        """
        step    111222333444555666
        device  kkkkkkkkkkkkkkkkkk
        @sample available_bytes=40000000000
        @pipeline Slices ms=0.1 elements=16 > Shuffle ms=0.1 elements=16 line=13 buffered_bytes=600
        > Batch ms=0.1 line=14 > Prefetch
        """,
    )


def _largest(trace: Trace) -> Node | None:
    """The user's shuffle that held most."""
    found = [n for p in trace.pipelines for n in p.nodes if n.family == "Shuffle" and n.written and n.written.place]
    return max(found, key=lambda n: n.buffered_bytes, default=None)
