"""Each epoch begins with filling a shuffle buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.source.spots.input import shuffling, staged
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip


class ShuffleFill(Cause):
    """At the start of every epoch the steps wait until the shuffle buffer is full.

    ## What it means
    `shuffle(n)` hands out nothing before it has read `n` elements. Behind an expensive `map`,
    each epoch makes `n` elements before its first step, and no step runs meanwhile.

    ## How it is recognised
    A `shuffle` of the user's, and a wait of many steps' length before or in the first steps of
    each epoch, while the steps inside an epoch hardly wait. The saving is what remains when the
    same elements are made beside the steps: where every epoch uses all of them and making them
    takes longer than training, moving the buffer saves only the part that then overlaps.

    ## What to do
    Shuffle the file names or records first and `map` afterwards: the buffer then fills in
    milliseconds. Or make the buffer smaller; for a complete shuffle of data in memory, permute it.
    Where each epoch takes a few elements only (`take(n)`), it fills the buffer anew for them: `repeat()` the
    data set and give `fit` `steps_per_epoch`, or keep one iterator for all epochs.

    ## When it is not worth it
    For few, long epochs: the buffer is filled once in each.
    """

    title = "Every epoch waits for the shuffle buffer"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.PHASES})  # epochs begin where no step is
    words = (".shuffle",)

    def examine(self, trace: Trace) -> Evidence | None:
        found = find_shuffle_fill(trace)
        if found is None:
            return None
        return Evidence(
            f"{found.epochs} epoch{'s' * (found.epochs > 1)} began with a wait of {format_number(found.each_ms)} ms "
            f"for the shuffle buffer, {format_number(found.each_ms / max(trace.step_ms, 1e-9))} times a mean step",
            {"fill_ms": found.each_ms, "epochs": float(found.epochs), "overlapped_ms": found.overlapped_ms},
            found.place,
        )

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the run where the wait lies between the steps."""
        found = find_shuffle_fill(trace)
        return "run" if found is not None and found.step_ms <= 0 else "step"

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = find_shuffle_fill(trace)
        if found is None:
            return []
        spread = (0.7, 1.05)
        inside = max(found.step_ms - found.overlapped_ms, 0.0)
        outside = found.outside_ms - (found.overlapped_ms * len(trace.steps) if found.step_ms <= 0 else 0.0)
        remedies: list[Remedy] = [Drop({Category.INPUT: inside}, 1.0, spread)] if inside > 0 else []
        return [*remedies, Skip(outside, spread)] if outside > 0 else remedies

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = measured.first(trace, evidence.where, datasets.shuffled_first)
        yield Prescription("edit", Effect.EQUIVALENT, "shuffle names or records before the expensive map", edits=found)
        yield Prescription("edit", Effect.CHANGES_TRAINING, "make the buffer smaller: less thorough shuffling")

    def spot(self, source: Source) -> Iterable[Spot]:
        """A buffer of what a map takes long to make, filled anew in each epoch."""
        known = [one for one in shuffling.behind_maps(source) if one.does is not None]
        for one in known:
            made = tuple(datasets.shuffled_first(source, edits.node_end(one.call.func)[0]))
            says = "shuffle names or records before the expensive map"
            cure = Prescription("edit", Effect.EQUIVALENT, says, edits=made)
            says = f"each epoch begins with {one.does} for every element of this buffer, before its first step"
            yield Spot(*call_index.operation_range(one.call), says, cure)
        for more in staged.beside([one.call for one in known], staged.filled(source)):
            made = tuple(datasets.shuffled_first(source, edits.node_end(more.call.func)[0])) if more.early else ()
            says = "shuffle names or records before the expensive map"
            if not more.early:
                says = "take every epoch from one iterator of the repeated data set: .repeat().shuffle(n), and "
                says += "steps_per_epoch in place of take(), or iter() once"
            yield Spot(
                *call_index.operation_range(more.call),
                more.says,
                Prescription("edit", Effect.EQUIVALENT, says, edits=made),
            )

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        names = [f"{i}.jpg" for i in range(200)]
        for name, pixels in zip(names, np.random.randint(256, size=(200, 64, 64, 3))):
            tf.io.write_file(name, tf.io.encode_jpeg(tf.cast(pixels, tf.uint8)))


        def load(name):
            image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (32, 32)) / 255.0
            return image, tf.reduce_mean(image)


        ds = tf.data.Dataset.from_tensor_slices(names)
        ds = ds.map(load, num_parallel_calls=4).shuffle(200)
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
        names = [f"{i}.jpg" for i in range(200)]
        for name, pixels in zip(names, np.random.randint(256, size=(200, 64, 64, 3))):
            tf.io.write_file(name, tf.io.encode_jpeg(tf.cast(pixels, tf.uint8)))


        def load(name):
            image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (32, 32)) / 255.0
            return image, tf.reduce_mean(image)


        ds = tf.data.Dataset.from_tensor_slices(names)
        ds = ds.shuffle(200).map(load, num_parallel_calls=4)
        ds = ds.batch(32).prefetch(2)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
        ),
    )

    fires = (
        """
        step    111222333444555666
        device  kkkkkkkkkkkkkkkkkk
        @event trace name=f start=0 end=60 data={"training":true,"trace_ns":1e7}
        @pipeline Slices ms=0.1 elements=16 > Map ms=3.2 elements=16 line=12 > Shuffle ms=0.1 elements=16 line=13
        detail={"buffer_size":200} > Batch ms=0.1 line=14 > Prefetch
        """,
        """
        step    111111111111111111111111111111112345678
        input   iiiiiiiiiiiiiiiiiiiiiiiiiiiiii.........
        device  ..............................kkkkkkkkk
        @steps block=8
        @pipeline Slices ms=0.1 elements=64 > ParallelMapV2 ms=8 elements=64 parallelism=2 line=12
        > Shuffle ms=0.1 elements=16 line=13 > Batch ms=0.1 line=14 > Prefetch
        """,
        """
        step    1111111111111111222333444555666
        input   iiiiiiiiiiiiii.................
        device  ..............kkkkkkkkkkkkkkkkk
        @steps block=6
        @pipeline Slices ms=0.1 elements=64 > Map ms=2 elements=64 line=12 > Shuffle ms=0.1 elements=16 line=13
        > Batch ms=0.1 line=14 > Prefetch
        """,
    )
    quiet = (
        """
        step    111222333444555666
        device  kkkkkkkkkkkkkkkkkk
        @event trace name=f start=0 end=60 data={"training":true,"trace_ns":1e7}
        @pipeline Slices ms=0.1 elements=16 > Shuffle ms=0.1 elements=16 line=13 detail={"buffer_size":200}
        > Map ms=3.2 elements=16 line=14 > Batch ms=0.1 > Prefetch
        """,
        """
        step    1112223334445556
        input   ii.ii.ii.ii.ii..
        device  ..k..k..k..k..kk
        @steps block=6
        @pipeline Slices ms=0.1 elements=16 > Map ms=2 elements=16 line=12 > Shuffle ms=0.1 elements=16 line=13
        > Batch ms=0.1 line=14 > Prefetch
        """,
        """
        step    111222333444555666
        device  kkkkkkkkkkkkkkkkkk
        @steps block=6
        @pipeline Slices ms=0.1 elements=16 > Shuffle ms=0.1 elements=16 line=13 > Batch ms=0.1 line=14 > Prefetch
        """,
    )
