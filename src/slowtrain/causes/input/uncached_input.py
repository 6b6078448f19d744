"""The same work is done again in every epoch, and its result would fit in memory or on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, unread_cache
from slowtrain.columns.input_pipeline import Node, Pipeline, repeats_input
from slowtrain.model import Category, Edit, Effect, Evidence, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.source.spots.input import anew, repeating, staged
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input import dataset_caches
from slowtrain.trace.signals.input.input_feed import as_ready_in_memory, calls_per_batch, user_lines, waited_pipeline
from slowtrain.trace.signals.input.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip, Supply, held_up_ms, takes_step_cores

DISK = 8.0  # times what copying in memory takes: a usual disk gives 500 MB/s


class UncachedInput(Cause):
    """Every epoch reads and transforms the same elements again, though the results would fit in memory.

    ## What it means
    The functions in front of any random step give the same result in every epoch. Kept in memory
    after the first one, the work is not done again.

    ## How it is recognised
    Several epochs of one data set were run, or are to be; the nodes that set the pace call
    functions without random ops and without Python; all that comes out of them in an epoch is smaller than
    half of the memory that was free throughout, or of what is free on the disk; and nothing behind them is cached.
    Or the data set has a cache, but is built again for each pass, so that nobody reads what it keeps. Or the cache
    never fills: `take` behind it stops each pass early, or `repeat` or a generator in front of it has no end. On a
    computer without a GPU steps need not wait for such work: it is enough that it takes the cores from them.
    Where the time is the price of very many calls, or of opening files, those causes are named.

    ## What to do
    Put `.cache()` behind the last deterministic `map` and in front of `shuffle`, random
    augmentation and `batch`. Where a `shuffle` comes earlier, move it behind the cache: a cache
    also keeps the order. Build a data set that has a cache once, outside of the loop over epochs.

    ## When it is not worth it
    For one epoch, for data that fits neither into memory nor (`.cache(path)`) on a fast disk, and
    when the data set is cut off with `take`: an incomplete cache is thrown away.
    """

    title = "The same input is made again every epoch"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.WRITTEN})
    symptoms = frozenset({Category.INPUT})
    words = (".map", "from_generator")
    beside = ("Dataset", "from_generator", "TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")

    def examine(self, trace: Trace) -> Evidence | None:
        found = _repeated(trace)
        if found is None or trace.pipeline is None:
            return unread_cache.evidence(trace)
        (node, size), epochs = found, dataset_caches.expected_passes(trace, trace.pipeline)
        if (room := measured.room(trace, size)) is None:
            return None
        caches = dataset_caches.useless_cache_lines(trace.pipeline, node)
        does = dataset_caches.cached_maps(trace.pipeline, node)
        ms = sum(n.ms for n in does)
        crowds = f"; no step waits for it, but for {format_number(held_up_ms(trace))} ms for a core that it is made on"
        beside = crowds if waited_pipeline(trace) is None and takes_step_cores(trace) else ""
        return Evidence(
            f"the same {format_number(ms)} ms of work for each batch is done in each of {epochs} epochs"
            f"{', behind the cache' if caches else ''}; its result for all elements takes "
            f"{format_number(size / 2**20)} MiB, {format_number(room.free_bytes / 2**20)} MiB are "
            f"free{room.where}{beside}",
            {"work_ms": ms, "epochs": float(epochs), "result_bytes": size, **room.numbers},
            (*distinct_places(place for one in does for place in user_lines(one)), *caches),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found, pipe = _repeated(trace), trace.pipeline
        if found is None and (unread := unread_cache.found_in(trace)) is not None:
            supply = unread_cache.supply(unread)
            return [supply, *_filled(trace, supply.share)]
        if found is None or pipe is None:
            return []
        node, share = found[0], 1 - 1 / dataset_caches.expected_passes(trace, pipe)
        if waited_pipeline(trace) is None and not takes_step_cores(trace):
            return _filled(trace, share)
        count = calls_per_batch(pipe, node)
        cached = [as_ready_in_memory(n, 0.0) for n in pipe.upstream_nodes(node)]
        written = (node.written.element_bytes or 0) * count if node.written else 0.0
        again = as_ready_in_memory(node, count, written * (DISK if evidence.numbers.get("on_disk") else 1.0))
        supply = Supply(pipeline=pipe.changed(again, *cached), share=share, spread=(0.8, 1.1))
        return [supply, *_filled(trace, share, within=waited_pipeline(trace) is None)]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the run where the beginning of each epoch waits, between the steps, and these do not, or for less."""
        filled = find_shuffle_fill(trace) if _repeated(trace) is not None else None
        if filled is None:
            return "step"
        waited = trace.mean(Category.INPUT) * int(trace.steps.steady.sum())
        return (
            "run" if filled.outside_ms > (waited if waited_pipeline(trace) is not None else filled.step_ms) else "step"
        )

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if (node := _repeated(trace)) is None:
            yield from unread_cache.prescriptions(trace)
            return
        line = measured.function_line(node[0])
        same, on_disk = True, bool(evidence.numbers.get("on_disk"))

        def edit(source: Source, at: int) -> list[Edit]:
            nonlocal same
            made, same = (datasets.cached_on_disk if on_disk else datasets.cached)(source, at, line)
            return made

        made = measured.first(trace, evidence.where[:1], edit)
        treated = None if on_disk else dataset_caches.cache_treatment(trace.pipeline, node[0])
        effect = Effect.EXACT if same or treated else Effect.EQUIVALENT
        says = f"put .cache({'path' if on_disk else ''}) behind this map, in front of shuffle and random augmentation"
        if trace.pipeline is not None and any(repeats_input(n.name) for n in trace.pipeline.upstream_nodes(node[0])):
            says = "map in front of shuffle and repeat, with .cache() behind it: one behind repeat is never full"
        yield Prescription("edit", effect, says, edits=made, later=bool(made or treated), treatment=treated)

    def spot(self, source: Source) -> Iterable[Spot]:
        """Work that is the same in every epoch, of which literals of the file say that its result is small."""
        known = list(repeating.work(source))
        for one in known:
            effect = Effect.EXACT if one.exact else Effect.EQUIVALENT
            says = f"put .cache() behind this {node_lookup.called_name(one.call)}"
            cure = Prescription("edit", effect, says, edits=one.edits)
            says = f"every epoch does {one.does} again for each element; "
            says += f"all results take {format_number(one.bytes / 2**20)} MiB"
            generator = (
                node_lookup.argument_value(one.call, "generator", 0)
                if "generator" in node_lookup.called_name(one.call)
                else None
            )
            place = (
                call_index.operation_range(one.call)
                if generator is None
                else (edits.node_start(generator), edits.node_end(generator))
            )
            yield Spot(*place, f"{says} at most", cure)
        seen = {one.call for one in known}
        early_ones = list(repeating.too_early(source))
        for more, size in staged.again(source, cached=not early_ones):
            if more.call in seen:
                continue
            seen.add(more.call)
            says = f"every epoch does {more.says} again for each element"
            says += f"; all results take {format_number(size / 2**20)} MiB at most" if size else "; its result is small"
            cure = Prescription("advice", Effect.EQUIVALENT, "put .cache() behind this map, where all results fit")
            yield Spot(*call_index.operation_range(more.call), says, cure)
        for early in early_ones:
            says = "put .cache() behind the map that does it, where its results fit into memory"
            cure = Prescription("advice", Effect.EXACT, says)
            kept = "this keeps names only" if early.names else "this keeps what is not worked on yet"
            says = f"{kept}: every epoch does {early.does} again for each element behind it"
            yield Spot(*call_index.operation_range(early.cache), says, cure)
        for each in anew.caches(source):
            says = "build it once, before the loop; what differs from turn to turn goes behind its cache"
            cure = Prescription("advice", Effect.EQUIVALENT, says)
            says = (
                f"each turn builds the data set anew, with a cache that nobody reads: {each.does} is done in every pass"
            )
            yield Spot(edits.node_start(each.built), edits.node_end(each.built), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        raw = [tf.io.encode_jpeg(tf.cast(p, tf.uint8)).numpy() for p in np.random.rand(64, 64, 64, 3) * 255]
        names = [f"{i}.jpg" for i in range(64)]
        for name, jpeg in zip(names, raw):
            tf.io.write_file(name, jpeg)


        def load(name):
            image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (32, 32)) / 255.0
            return image, tf.reduce_mean(image)


        ds = tf.data.Dataset.from_tensor_slices(names)
        ds = ds.map(load, num_parallel_calls=4)
        ds = ds.batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds, epochs=3)
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        raw = [tf.io.encode_jpeg(tf.cast(p, tf.uint8)).numpy() for p in np.random.rand(64, 64, 64, 3) * 255]
        names = [f"{i}.jpg" for i in range(64)]
        for name, jpeg in zip(names, raw):
            tf.io.write_file(name, jpeg)


        def load(name):
            image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (32, 32)) / 255.0
            return image, tf.reduce_mean(image)


        ds = tf.data.Dataset.from_tensor_slices(names)
        ds = ds.map(load, num_parallel_calls=4).cache()
        ds = ds.batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds, epochs=3)
        """,
        ),
    )

    fires = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact machine={"memory":{"available_bytes":8e9}} cpu_ms_per_step=19 step_cpu_ms=4 usable_cores=2
        & devices=[{"kind":"CPU"}]
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=14 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"ops":{"Mul":1},"function":{"user":true},"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=5 > TFRecord ms=0.1 elements=16 > Shuffle ms=0.1 elements=16
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":-2,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiii....
        device  ......kkkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=9 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > Map ms=6 elements=16 line=12 detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160} > MemoryCache ms=0.1 line=11
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @pipeline epochs=1 times=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > MemoryCache ms=0.1 elements=16 line=13 > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiii....
        device  ......kkkk
        @fact machine={"memory":{"available_bytes":8e9},"working_folder":{"filesystem":"ext4","free_bytes":2e12}}
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160000}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160000,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=1 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > ForeverRepeat elements=16 line=13 > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=1 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ForeverRepeat elements=16 line=13 > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":-1,"element":[{"shape":[64,64,3],"bytes":4}]} > Batch ms=0.1 > Prefetch
        """,
    )
    quiet = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact machine={"memory":{"available_bytes":8e9}} cpu_ms_per_step=19 step_cpu_ms=12 usable_cores=2
        & devices=[{"kind":"CPU"}]
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=14 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        # Built anew without a cache, it may be made of other data each time.
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=1 times=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"element":[{"shape":[64,64,3],"bytes":4}]}
        > MemoryCache ms=0.1 line=13 > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160,"ops":{"RandomUniform":1},"element":[{"shape":[64,64,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact machine={"memory":{"available_bytes":8e9}}
        @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":160000}
        > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
        detail={"cardinality":160000,"element":[{"shape":[512,512,3],"bytes":4}]}
        > Batch ms=0.1 > Prefetch
        """,
    )


def _filled(trace: Trace, share: float, within: bool = True) -> list[Remedy]:
    """What a run waits for a shuffle buffer between its passes, and ``within`` steps where nobody counts that yet."""
    found, spread = find_shuffle_fill(trace), (0.6, 1.05)
    if found is None:
        return []
    inside = [Drop({Category.INPUT: share * found.step_ms}, spread=spread)] if within and found.step_ms > 0 else []
    return [*inside, *([Skip(share * found.outside_ms, spread=spread)] if found.outside_ms > 0 else [])]


def _waited_for(trace: Trace) -> Pipeline | None:
    """The pipeline that steps wait for, for a batch or a core, or epochs until it has filled a shuffle buffer."""
    filled = find_shuffle_fill(trace)
    return waited_pipeline(trace) or (
        trace.pipeline if takes_step_cores(trace) or (filled and filled.epochs > 1) else None
    )


def _repeated(trace: Trace) -> tuple[Node, float] | None:
    """The last deterministic map that sets the pace, or a zip of several, and the bytes of its results in an epoch."""
    pipe = _waited_for(trace)
    if pipe is None or dataset_caches.expected_passes(trace, pipe) < 2:
        return None
    return dataset_caches.node_worth_caching(trace, pipe)
