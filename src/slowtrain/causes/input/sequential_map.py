"""A map, or an interleave of maps, works on one element at a time while cores are idle."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index, imported_functions, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, map_work, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.source.spots.input import staged
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.input.input_feed import (
    calls_per_batch,
    idle_cores,
    is_user_node,
    slow_user_maps,
    user_lines,
    waited_pipeline,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Supply

LEAST_US = 30.0  # assumed: a shorter call is mostly the price of calling, which threads do not lower
FEW = 64  # elements, assumed: of fewer, threads would have to be started for a single batch or two
LEAST_IDLE = 0.25  # of a core


class SequentialMap(Cause):
    """A `map` transforms one element after the other while other cores have nothing to do.

    ## What it means
    The function given to `map` decides how fast batches come, and only one call of it runs at
    any time.

    ## How it is recognised
    The `map` node sets the pace of the pipeline, it ran with a parallelism of one, each call takes
    long enough to be worth a thread, and cores were idle meanwhile. TensorFlow runs maps without
    random or stateful ops in parallel by itself when autotuning is on; those are left alone. Maps inside the
    function of an `interleave` without `num_parallel_calls` take turns, too: theirs is the time of all of them. A
    function that holds Python's interpreter lock gains nothing from threads, and a map that is
    parallel already and still too slow lacks cores: both are other causes.

    ## What to do
    `map(function, num_parallel_calls=tf.data.AUTOTUNE)`. The order of elements stays; random
    numbers are drawn in another order. Likewise `interleave(function, num_parallel_calls=tf.data.AUTOTUNE)`.

    ## When it is not worth it
    For functions of a few microseconds an element: there the call is the cost, and mapping over
    whole batches is the cure.
    """

    title = "map runs one call at a time"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = (".map",)

    def examine(self, trace: Trace) -> Evidence | None:
        node = _sequential(trace)
        if node is None or trace.pipeline is None:
            return _in_turn(trace)
        count = calls_per_batch(trace.pipeline, node)
        us, idle = 1e3 * node.ms / max(count, 1e-9), idle_cores(trace)
        return Evidence(
            f"the map makes one element at a time, {format_number(us / 1e3, 2)} ms each, {format_number(node.ms)} "
            "ms a batch, "
            f"while {_spare(trace)}",
            {"map_ms": node.ms, "element_us": us, "idle_cores": idle, "parallelism": node.parallelism or 1.0},
            user_lines(node),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        node, nested = _sequential(trace), _interleaved(trace)
        if trace.pipeline is not None and node is None and nested is not None:
            width = min(trace.cores, nested.reads or trace.cores)
            wide = replace(nested.node, name="ParallelInterleaveV4", parallelism=width)
            return [Supply(pipeline=trace.pipeline.changed(wide))]
        if node is None or trace.pipeline is None:
            return []
        # As many calls at once as there are cores; that the step needs them too, the replay's processor time says.
        name = node.name if node.asynchronous else "ParallelMapV2"
        return [Supply(pipeline=trace.pipeline.changed(replace(node, name=name, parallelism=trace.cores)))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        node = _sequential(trace)
        if node is None:
            together = measured.first(trace, evidence.where[:1], datasets.interleaved)
            says = "give interleave num_parallel_calls=tf.data.AUTOTUNE"
            yield Prescription("edit", Effect.EXACT, says, edits=together)
            return
        line = measured.function_line(node)
        fixed = node.written is not None and bool(node.written.ops) and not node.written.random
        found = measured.first(trace, evidence.where[:1], lambda s, at: datasets.parallel(s, at, line))
        effect = Effect.EXACT if fixed else Effect.EQUIVALENT
        says = "give map num_parallel_calls=tf.data.AUTOTUNE"
        yield Prescription("edit", effect, says, edits=found, treatment="parallel-map")

    def spot(self, source: Source) -> Iterable[Spot]:
        """A map of work that is worth a thread, one call at a time; once cached, or parallel further on, it is not."""
        seen: set[ast.Call] = set()
        for call in (
            call_index.index_of(source).called("map")
            if dataset_chains.may_make_dataset(source) or imported_functions.may_import_project_files(source)
            else ()
        ):
            given = node_lookup.argument_value(call, "num_parallel_calls", 1)
            if not dataset_chains.is_operation(call) or not call.args or not datasets.in_turn(source, call):
                continue
            flow = dataset_chains.upstream_chain(source, call)
            if whole_pipelines.BATCHING_OPERATIONS & set(flow.names) and "unbatch" not in flow.names:
                continue  # one whole batch is made while the step takes another
            if not flow.known or (element_sizes.max_elements(source, flow) or FEW) < FEW:
                continue
            work = map_work.function_work(source, call.args[0], call)
            if work is None or work.python:  # Python holds the interpreter's lock: threads would wait for each other
                continue
            if any(
                "cache" in (*flow.begun, *flow.names) or not flow.known
                for flow in dataset_chains.chains_through(source, call)
            ):
                continue
            line = edits.node_end(call.func)[0]
            effect = Effect.EQUIVALENT if repeatable_functions.may_vary_by_call(source, call.args[0]) else Effect.EXACT
            cure = Prescription(
                "edit",
                effect,
                "give map num_parallel_calls=tf.data.AUTOTUNE",
                edits=tuple(datasets.parallel(source, line)),
            )
            asked = "" if given is None or isinstance(given, ast.Constant) else f": {ast.unparse(given)} allows no more"
            seen.add(call)
            yield Spot(
                *call_index.operation_range(call), f"map does {work.says} for one element at a time{asked}", cure
            )
        for more in staged.beside(seen, staged.sequential(source)):
            made = tuple(datasets.parallel(source, edits.node_end(more.call.func)[0]))
            says = "give map num_parallel_calls=tf.data.AUTOTUNE"
            yield Spot(
                *call_index.operation_range(more.call), more.says, Prescription("edit", Effect.EXACT, says, edits=made)
            )

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
        ds = ds.map(load).batch(32).prefetch(2)
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
        ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
        ),
    )

    fires = (
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @pipeline Slices ms=0.1 > Map ms=9.7 elements=32 parallelism=1 line=12 > Batch ms=0.2 line=13
        > Prefetch buffer=2 line=14
        """,
        """
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @pipeline Slices ms=0.1 > Map ms=8 elements=8 line=12 > Batch ms=0.2 line=13
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @pipeline Slices ms=0.1 > Map ms=9 elements=8 > Interleave ms=0.3 elements=8 line=12 > Batch ms=0.2 line=13
        > Prefetch buffer=2 line=14
        """,
    )
    quiet = (
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @pipeline Slices ms=0.1 > Map ms=9 elements=8 > ParallelInterleaveV4 ms=0.3 elements=8 parallelism=4 line=12
        > Batch ms=0.2 line=13 > Prefetch buffer=2 line=14
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @pipeline Slices ms=0.1 > ParallelMapV2 ms=38 elements=32 parallelism=4 line=12 > Batch ms=0.2 line=13
        > Prefetch buffer=2
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @pipeline Slices ms=0.1 > Map ms=9.7 elements=2000 parallelism=1 line=12 > Batch ms=0.2 line=13
        > Prefetch buffer=2
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact usable_cores=1
        @pipeline Slices ms=0.1 > Map ms=9.7 elements=32 parallelism=1 line=12 > Batch ms=0.2 line=13
        > Prefetch buffer=2
        """,
    )


def _sequential(trace: Trace) -> Node | None:
    """The user's map that sets the pace, runs one call at a time, and need not."""
    pipe = waited_pipeline(trace)
    if pipe is None or idle_cores(trace) < LEAST_IDLE:
        return None
    for node in slow_user_maps(pipe):
        alone = (node.parallelism or 1.0) <= 1.0 and not node.tunable
        long = 1e3 * node.ms >= LEAST_US * calls_per_batch(pipe, node)
        if alone and long and calls_per_batch(pipe, node) > 1 and node.written and not node.written.python:
            return node
    return None


@dataclass(frozen=True)
class Nested:
    """An ``interleave`` whose data sets make their elements in turn, ``ms`` of it in maps, for each batch.

    ``reads`` is how many it goes through side by side; 0: not known.
    """

    node: Node
    ms: float
    elements: float
    reads: int


def _interleaved(trace: Trace) -> Nested | None:
    """The user's interleave without parallel calls whose own maps set the pace."""
    pipe = waited_pipeline(trace)
    if pipe is None or idle_cores(trace) < LEAST_IDLE or trace.producers:
        return None
    for node in pipe.nodes:
        if node.family != "Interleave" or node.asynchronous or not is_user_node(node) or node.written is None:
            continue
        # What its function makes was written in a graph: nobody noted a line.
        inner = [
            n for n in pipe.upstream_nodes(node) if n.family == "Map" and not is_user_node(n) and not n.asynchronous
        ]
        ms, count = sum(n.ms for n in inner), sum(n.elements for n in inner)
        if ms >= 0.5 * pipe.made_ms and 1e3 * ms >= LEAST_US * count:
            return Nested(node, ms, count, int(node.written.detail.get("cycle_length") or 0))
    return None


def _in_turn(trace: Trace) -> Evidence | None:
    nested = _interleaved(trace)
    if nested is None:
        return None
    us, idle = 1e3 * nested.ms / max(nested.elements, 1e-9), idle_cores(trace)
    return Evidence(
        f"the maps inside this interleave make one element at a time, {format_number(us / 1e3, 2)} ms each, "
        f"{format_number(nested.ms)} ms a batch, while {_spare(trace)}",
        {"map_ms": nested.ms, "element_us": us, "idle_cores": idle, "parallelism": 1.0},
        user_lines(nested.node),
    )


def _spare(trace: Trace) -> str:
    """What training leaves of the cores: idle, or to other processes that took the rest."""
    idle, of = idle_cores(trace), f"of {trace.cores:g} cores"
    if stalls.crowding_cores(trace) >= LEAST_IDLE:
        return f"training takes {format_number(max(trace.cores - idle, 0.0), 2)} {of}"
    return f"{format_number(idle, 2)} {of} are idle"
