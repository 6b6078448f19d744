"""Input that is written well, on too few cores or threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.waiting import waiting
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.source.spots.input import threads
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import (
    busy_cores,
    calls_per_batch,
    idle_cores,
    is_user_node,
    slowest_stage_nodes,
    user_lines,
    waited_pipeline,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Supply

BUSY = 0.85  # of the cores: the scheduler and other processes leave no more
ALONE = 1.4  # calls under way at once: a pool of one thread, measured
LONG_US = 200.0  # shorter calls are mostly the price of calling, which a node's own time does not hold
AUTOTUNE = -1  # tf.data.AUTOTUNE
LEAST_IDLE = 0.4  # of a core: enough to say that the threads, not the cores, are few


@dataclass(frozen=True)
class Starved:
    """``width`` calls were asked for at once, ``under_way`` were. ``pool``: threads are few, else cores are.

    ``at_once``: so many could be under way with as many threads as it asks for.
    """

    node: Node
    width: float
    under_way: float
    pool: bool
    where: tuple[Place, ...]
    at_once: float


class StarvedHost(Cause):
    """The input runs in parallel as it should, but there are too few cores or threads for it.

    ## What it means
    More parallel calls would not help: either every core is at work, or a setting (a private
    thread pool of the data set, a container's quota) leaves the input fewer threads than it asks
    for.

    ## How it is recognised
    The node that sets the pace is parallel. Threads are few where it asks for several calls at
    once, hardly more than one was under way at any time, and cores were idle; in Python only where its
    calls mostly wait and the data set has few threads of its own. Cores are few where
    the process kept nearly all of them busy while the step waited.

    ## What to do
    Remove the limit (`options.threading.private_threadpool_size`, the container's `cpus`). Where there is none and some
    elements take much longer than others, let the rest overtake them (`deterministic=False`: their order is then
    another in every run). Or do
    less work for each element: cache what is the same in every epoch, decode to the size needed,
    move augmentation to the device, prepare the data once. Then more cores for each device.

    ## When it is not worth it
    When the training itself runs on these cores: it would slow down by what the input gains.
    """

    title = "Too few cores or threads for the input"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE, Signal.MACHINE})
    symptoms = frozenset({Category.INPUT})
    words = ("private_threadpool_size", "experimental_threading")

    def examine(self, trace: Trace) -> Evidence | None:
        found = _starved(trace)
        if found is None:
            return None
        busy = busy_cores(trace) or 0.0
        if found.pool:
            says = (
                f"{found.width:g} calls at once are asked for and {format_number(found.under_way, 2)} are under way, "
            )
        else:
            says = f"{found.width:g} calls at once make the input, "
        return Evidence(
            f"{says}{format_number(busy, 2)} of {trace.cores:g} cores are busy; "
            f"a batch needs {format_number(found.node.ms)} ms of work",
            {"parallelism": found.width, "under_way": found.under_way, "busy_cores": busy, "cores": trace.cores},
            (*_limits(trace, found), *found.where),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _starved(trace)
        if found is None:
            return []
        if found.pool:
            factor = found.under_way / found.at_once
            return [Supply(max(min(factor, 1.0), 0.05), spread=(0.6, 1.1))]
        # One core more, for what one core gives: no change of the script gives it.
        return [Supply(trace.cores / (trace.cores + 1), work=1.0, spread=(0.3, 1.2))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if evidence.numbers.get("under_way", 2.0) < ALONE:
            found = measured.first(trace, evidence.where, datasets.threads_freed)
            says = "remove the limit on the data set's threads (private_threadpool_size)"
            written = trace.pipeline.written if trace.pipeline is not None else ()
            # Threads draw beside each other: which element a random number is for depends on who comes first.
            drawn = any(w.random or (w.family == "Map" and not w.ops) for w in written)
            yield Prescription("edit", Effect.EQUIVALENT if drawn else Effect.EXACT, says, edits=found)
            if not found and (free := measured.first(trace, evidence.where, datasets.unordered)):
                # Nothing limits its threads: in order, calls that are done wait for the slow one in front of them.
                says = "take elements as they are ready, not in their order (deterministic=False)"
                yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=free)
        yield Prescription(
            "advice", Effect.EXACT, "give the process more cores, or its input less work for each element"
        )

    def spot(self, source: Source) -> Iterable[Spot]:
        """One thread for a pipeline that asks for several calls at once."""
        for limit in threads.limited(source):
            made = tuple(datasets.threads_freed(source, limit.lineno))
            says = "remove the limit on the data set's threads (private_threadpool_size)"
            maps = [c for c in call_index.index_of(source).called("map") if c.args and dataset_chains.is_operation(c)]
            drawn = any(repeatable_functions.may_vary_by_call(source, c.args[0]) for c in maps)
            cure = Prescription("edit", Effect.EQUIVALENT if drawn else Effect.EXACT, says, edits=made)
            says = "several calls at once are asked for, and this leaves the data set one thread"
            yield Spot(edits.node_start(limit), edits.node_end(limit), says, cure)

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


        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        ds = tf.data.Dataset.from_tensor_slices(raw).with_options(options)
        ds = ds.map(load, num_parallel_calls=4).batch(32).prefetch(2)
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


        options = tf.data.Options()
        ds = tf.data.Dataset.from_tensor_slices(raw).with_options(options)
        ds = ds.map(load, num_parallel_calls=4).batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
        ),
    )

    fires = (
        """
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @fact cpu_ms_per_step=10 usable_cores=8
        @pipeline Slices ms=0.1 > ParallelMapV2 ms=10 elements=16 parallelism=8 line=12 > Batch ms=0.1 line=13
        > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiiiii.
        device  .........k
        @fact cpu_ms_per_step=11 usable_cores=2
        @pipeline Slices ms=0.1 > ParallelMapV2 ms=9 elements=16 parallelism=1 line=12 detail={"parallel":-1}
        > Batch ms=0.1 line=13 > Prefetch detail={"options":{"private_threads":1}}
        """,
        # Answers of a service are waited for by sixteen calls at once, of one thread.
        """
        step    1111111111
        input   iiiiiiiii.
        device  .........k
        @fact cpu_ms_per_step=1 usable_cores=2
        @span pyfunc query start=0 end=9 line=12 times=40 every=10
        @pipeline Slices ms=0.1 > Batch ms=0.1 line=11 > ParallelMapV2 ms=9.5 elements=1 parallelism=16 line=12
        detail={"parallel":16,"python":{"file":"train.py","line":12,"user":true}} > Prefetch
        detail={"options":{"private_threads":1}}
        """,
    )
    quiet = (
        """
        step    1111111111
        input   iiiiiiii..
        device  ........kk
        @fact cpu_ms_per_step=11 usable_cores=8
        @pipeline Slices ms=0.1 > Map ms=10 elements=32 parallelism=1 line=12 > Batch ms=0.1 line=13 > Prefetch
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact cpu_ms_per_step=38 usable_cores=4
        @pipeline Slices ms=0.1 > ParallelMapV2 ms=36 elements=32 parallelism=4 line=12 > Batch ms=0.1 line=13
        > Prefetch
        """,
    )


def _starved(trace: Trace) -> Starved | None:
    pipe, busy = waited_pipeline(trace), busy_cores(trace)
    if pipe is None or busy is None:
        return None
    few = _threads(trace)
    # Python computes in one thread at a time, but any number of threads can wait, and need no core for it.
    waits = few is not None and waiting(trace) is not None
    for node in slowest_stage_nodes(pipe)[:2]:
        width = node.parallelism or 1.0
        if few is not None and node.written is not None and node.written.detail.get("parallel") == AUTOTUNE:
            width = max(width, trace.cores)  # the tuner gives no more than the pool has threads
        if width < 2 or not is_user_node(node) or node.written is None or (node.written.python and not waits):
            continue
        at_once = width if waits else min(width, trace.cores)
        under_way = node.ms / trace.step_ms
        limits = tuple(w.place for w in pipe.written if w.op == "OptionsDataset" and w.place)
        where = (*limits, *user_lines(node))
        long = 1e3 * node.ms >= LONG_US * calls_per_batch(pipe, node)
        if few is not None and few < at_once and idle_cores(trace) >= LEAST_IDLE:
            return Starved(node, width, min(under_way, few), True, where, at_once)
        if long and 1 / ALONE <= under_way <= ALONE and idle_cores(trace) >= LEAST_IDLE and width * 0.7 > under_way:
            return Starved(node, width, under_way, True, where, at_once)
        if busy >= BUSY * trace.cores and width >= trace.cores:
            return Starved(node, width, under_way, False, where, at_once)
    return None


def _threads(trace: Trace) -> int | None:
    """Threads that the user's options leave the pipeline; None where they say nothing."""
    written = trace.pipeline.written if trace.pipeline else ()
    given = (written[-1].detail.get("options") or {}).get("private_threads") if written else None
    return int(given) if given else None


def _limits(trace: Trace, found: Starved) -> tuple[Place, ...]:
    """Where the script sets the limit itself: the line to change."""
    if not found.pool or found.under_way >= ALONE:
        return ()
    freed = measured.first(trace, found.where, datasets.threads_freed)
    return tuple(Place(edit.file, edit.start[0]) for edit in freed)
