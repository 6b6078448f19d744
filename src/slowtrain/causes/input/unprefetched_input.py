"""Batches are made in the step's own thread, though they would fit behind the step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import handmade_input
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, training_pipelines
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import ahead, datasets
from slowtrain.source.spots.input import handfed, staged
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import MIN_WAIT_SHARE
from slowtrain.whatif import Drop, Remedy, Supply

FEW = 10  # batches, assumed: training of as few is a trial


class UnprefetchedInput(Cause):
    """The device waits while the next batch is made, though it could be made during the step before.

    ## What it means
    The last nodes of the input pipeline run in the thread that asks for the batch, so that their
    work adds to every step instead of hiding behind it.

    ## How it is recognised
    Work in the nodes after the last one that works ahead (`prefetch`, or a parallel `map`), and a
    wait for each batch to match. A pipeline that ends in `prefetch` and is waited for all the
    same is too slow, which is another cause. Lines of a hand-written loop that wait for a disk or
    a network between two steps count too, when the wait is shorter than the rest of the step.
    TensorFlow itself adds a `prefetch` at the end of many pipelines when autotuning is on: what
    counts is the pipeline that ran, not the one that was written.

    ## What to do
    End the pipeline with `.prefetch(tf.data.AUTOTUNE)`. In a hand-written loop, fetch the next
    batch in a background thread, or let `tf.data.Dataset.from_generator(...).prefetch(2)` do it.

    ## When it is not worth it
    When making a batch takes longer than the rest of the step, prefetching hides only as much as
    the rest of the step is long: then make the batch cheaper first. On a CPU without idle cores
    there is nothing to hide behind.
    """

    title = "Input is not prefetched"
    needs = frozenset({Signal.STEPS, Signal.INPUT})
    recorded = frozenset({Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = (".fit", "GradientTape", "train_on_batch")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """Of a profile without a data set also what the loop's own lines do."""
        wanted = super().wants(trace)
        by_hand = Signal.PIPELINE in wanted and trace.fact("profile") and not trace.pipelines
        return wanted | {Signal.LINES} if by_hand else wanted

    def examine(self, trace: Trace) -> Evidence | None:
        found = _exposed(trace)
        if found is None:
            return None
        exposed, where = found
        return Evidence(
            f"each step of {format_number(trace.step_ms)} ms first makes its batch in its own thread, "
            f"{format_number(exposed, 2)} ms, "
            "before anything else can begin",
            {"exposed_ms": exposed, "rest_ms": trace.step_ms - exposed},
            where,
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        hand = handmade_input(trace)
        if hand is None:
            return [Supply(beside=True, spread=(0.7, 1.1))]
        # What waits needs no core beside the step: as much is hidden as the rest of the step is long.
        hidden = min(hand.ms, trace.step_ms - hand.ms)
        return [Drop({Category.PYTHON: hidden}, 1 - hand.waiting, (0.8, 1.1))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        # The first of these lines is the pipeline's last operation; further up, prefetch would hide less.
        if handmade_input(trace) is not None:
            made = measured.first(trace, evidence.where, ahead.made_ahead)
            says = "make the next batch in a background thread while the step runs"
            yield Prescription("edit", Effect.EXACT, says, edits=made)
            return
        found = measured.first(trace, evidence.where[:1], datasets.prefetched)
        says = "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
        yield Prescription("edit", Effect.EXACT, says, edits=found, treatment="prefetch")

    def spot(self, source: Source) -> Iterable[Spot]:
        """A pipeline with work in it that training takes its batches from, and nothing at its end works ahead.

        A loop of steps that reads each batch from a file itself.
        """
        for fed in handfed.read(source):
            says = "make the next batch in a background thread while the step runs"
            cure = Prescription("edit", Effect.EXACT, says, edits=fed.edits)
            yield Spot(edits.node_start(fed.node), edits.node_end(fed.node), fed.says, cure)
        seen: set[ast.Call] = set()
        for flow in dict.fromkeys(training_pipelines.training_chains(source)):
            names = (*flow.begun, *flow.names)
            working = [n for n, name in enumerate(names) if name in training_pipelines.WORKING_OPERATIONS]
            behind = {"prefetch", "cache"} & set(names[working[-1] :]) if working else ()
            if (element_sizes.max_elements(source, flow) or FEW) < FEW:
                continue
            if not working or behind:  # what a cache holds is only cut into batches
                continue
            if not flow.calls:
                yield from _made_elsewhere(source, flow)
                continue
            last = flow.calls[-1]
            made = tuple(datasets.prefetched(source, edits.node_end(last.func)[0]))
            cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
            says = (
                f"the pipeline ends in {node_lookup.called_name(last)}: nothing makes the next batch while the "
                "step runs"
            )
            seen.add(last)
            yield Spot(*call_index.operation_range(last), says, cure)
        for more in staged.beside(seen, staged.unprefetched(source)):
            made = tuple(datasets.prefetched(source, edits.node_end(more.call.func)[0]))
            cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
            yield Spot(*call_index.operation_range(more.call), more.says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        raw = [tf.io.encode_jpeg(tf.cast(p, tf.uint8)).numpy() for p in np.random.rand(64, 64, 64, 3) * 255]


        def load(jpeg):
            image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (32, 32)) / 255.0
            return image, tf.reduce_mean(image)


        ds = tf.data.Dataset.from_tensor_slices(raw)
        ds = ds.map(load, num_parallel_calls=4).batch(32)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        raw = [tf.io.encode_jpeg(tf.cast(p, tf.uint8)).numpy() for p in np.random.rand(64, 64, 64, 3) * 255]


        def load(jpeg):
            image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (32, 32)) / 255.0
            return image, tf.reduce_mean(image)


        ds = tf.data.Dataset.from_tensor_slices(raw)
        ds = ds.map(load, num_parallel_calls=4).batch(32).prefetch(tf.data.AUTOTUNE)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
        ),
    )

    fires = (
        """
        step    1111111111
        input   iiii......
        device  ....kkkkkk
        @pipeline Slices ms=0.1 > Map ms=3.7 line=12 > Batch ms=0.2 line=12
        """,
        """
        step    1111111111
        input   iii.......
        device  ...kkkkkkk
        @pipeline Slices ms=0.1 line=11 > ParallelMapV2 ms=3 parallelism=2 line=12 > Batch ms=3 line=13
        """,
        """
        step    1111111111
        python  ppp.......
        device  ...kkkkkkk
        @steps source=train_on_batch line=5
        @fact cpu_ms_per_step=14 main_cpu_ms=0.4 usable_cores=2
        @fact sources={"train.py":"for e in E:\\n for i in r:\\n  x = d[i]\\n  y = f(x)\\n  m.train_on_batch(x,y)"}
        @line 3 ms=2
        @line 4 ms=1
        @line 5 ms=7
        """,
    )
    quiet = (
        """
        step    1111111111
        python  ppp.......
        device  ...kkkkkkk
        @steps source=train_on_batch line=5
        @fact cpu_ms_per_step=14 main_cpu_ms=9 usable_cores=2
        @fact sources={"train.py":"for e in E:\\n for i in r:\\n  x = d[i]\\n  y = f(x)\\n  m.train_on_batch(x,y)"}
        @line 3 ms=2
        @line 4 ms=1
        @line 5 ms=7
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @pipeline Slices ms=0.1 > Map ms=3.7 line=12 > Batch ms=0.2 line=12 > Prefetch buffer=2
        """,
        """
        step    1111111111
        input   iiii......
        device  ....kkkkkk
        @pipeline Slices ms=0.1 > Map ms=9.7 line=12 > Batch ms=0.2 line=12 > Prefetch buffer=2
        """,
    )


def _made_elsewhere(source: Source, flow: dataset_chains.DatasetChain) -> Iterable[Spot]:
    """All of a pipeline is in a function of another file: what that gives can be fetched ahead here."""
    if flow.entry is None:
        return
    text, also = datasets.autotune(source, flow.entry)
    made = (*also, *edits.append_to_chain(source, flow.entry, f".prefetch({text})"))
    cure = Prescription("edit", Effect.EXACT, "end the pipeline with .prefetch(tf.data.AUTOTUNE)", edits=made)
    says = f"the pipeline that this makes ends in {flow.begun[-1]}: nothing makes the next batch while the step runs"
    yield Spot(edits.node_start(flow.entry), edits.node_end(flow.entry), says, cure)


def _exposed(trace: Trace) -> tuple[float, tuple[Place, ...]] | None:
    """Ms a step of making batches that nothing runs beside, and the user's lines."""
    pipe, wait = trace.pipeline, trace.mean(Category.INPUT)
    if pipe is None or not any(w.place or "profiled" in w.detail for w in pipe.written):
        hand = handmade_input(trace)
        fits = hand is not None and MIN_WAIT_SHARE * trace.step_ms <= hand.ms <= trace.step_ms - hand.ms
        return (hand.ms, hand.where) if hand is not None and fits and hand.waiting > 0.5 else None
    if wait < MIN_WAIT_SHARE * trace.step_ms:
        return None
    # Without counters the pipeline as written has to do: then nothing was measured of what TensorFlow adds.
    exposed = pipe.exposed_ms if pipe.nodes and pipe.counted else 0.0 if _works_ahead(pipe) else wait
    if exposed < 0.3 * wait or exposed < MIN_WAIT_SHARE * trace.step_ms:
        return None
    return min(exposed, wait), _last(pipe)


def _works_ahead(pipe: Pipeline) -> bool:
    """Whether the pipeline as written works ahead of its consumer anywhere."""
    ahead = ("Prefetch", "ParallelMap", "ParallelInterleave", "ParallelBatch")
    return any(w.op.startswith(ahead) for w in pipe.written)


def _last(pipe: Pipeline) -> tuple[Place, ...]:
    """The user's lines from the end of the pipeline on: where the prefetch goes first."""
    return tuple(dict.fromkeys(w.place for w in reversed(pipe.written) if w.place))[:3]
