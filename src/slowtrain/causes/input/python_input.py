"""Python makes the input, under the interpreter lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.causes.waiting import bytes_to_tell, for_bytes, waiting
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import (
    HandmadeInput,
    handmade_input,
    input_follows_model,
    is_interpreted,
    only_converts,
    recorded_source,
)
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import again, chunks, generators, quicker
from slowtrain.source.spots import reached
from slowtrain.source.spots.input import images, slowpython
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work, stalls
from slowtrain.trace.signals.input import dataset_caches, input_feed
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy, Supply, held_up_ms

VECTORISED = 0.05  # of the time of a loop in bytecode, assumed: array code is ten and more times faster
OPS_MS = 0.1  # a call for one element of some dozens of small TensorFlow ops: 0.11 and 0.18 ms in recordings
OPS_HELP = 0.5  # of the time of a loop in bytecode, at the most, is what such ops must take
WAITING = 0.5  # a producer that does not compute for longer than this waits for something: a disk, a network
ASIDE = 8.0  # calls that wait at once, once a cure lets several: assumed, as many as it advises
WHOLE = "make arrays once and use from_tensor_slices, or yield whole batches"
COPIES = 3.0  # of the data while arrays are stacked and become tensors


@dataclass(frozen=True)
class Work:
    """``kind``: samples, loop, once, drawn, beside, work, waits. ``left`` is what a cure leaves of ``ms``.

    ``held_ms``: what the step's own threads wait for the interpreter's lock meanwhile, their batch at hand.
    """

    kind: str
    ms: float
    calls: float
    where: tuple[Place, ...]
    left: float
    share: float = 1.0
    hand: HandmadeInput | None = None
    held_ms: float = 0.0


SAYS = {
    "samples": "hand over one sample at a time, {calls:.0f} calls a batch",
    "loop": "run line by line in the interpreter",
    "once": "do the same work again in every epoch",
    "drawn": "draw every batch anew",
    "beside": "work while the step waits",
    "work": "work on one core",
    "waits": "wait for something and compute nothing meanwhile, nor were bytes read that explain it",
}


class PythonInput(Cause):
    """Batches are made by Python code, one thread at a time, and the step waits for them.

    ## What it means
    A generator, a `py_function` or `numpy_function`, a `PyDataset`, or lines in the training loop
    itself make the input. Python runs one thread at a time (its interpreter lock), so that more
    parallel calls do not help, and the step's own Python has to wait for the lock too.

    ## How it is recognised
    The time spent in the user's Python for each batch, measured call by call, is what the step
    waits for, and a processor is busy with it. Or batches are ready in time, but while they are
    made the step's own threads get less processor time than they wait. The hot line comes from tracing a few calls.
    Python that waits counts too, where it reads too little for a disk to be what it waits for (that is `slow-storage`):
    it sleeps, or waits for a lock or the answer of a service. Python that keeps up with the step is none.

    ## What to do
    By what the Python does. Single samples out of arrays: `from_tensor_slices`, or yield whole
    batches. A loop over elements: array code or TensorFlow ops. The same work in every epoch: do
    it once, before training or with `cache()`. Real work that draws at random: TensorFlow ops in
    a parallel `map`, or several worker processes. Waiting for a service: several calls at once, in worker threads
    (`PyDataset(workers=8)`) or a `map` with parallel calls, or everything fetched once.

    ## When it is not worth it
    When making a batch takes less than the step and runs beside it.
    """

    title = "Input is made by Python"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PYTHON})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = slowpython.WORDS

    def wants(self, trace: Trace) -> frozenset[Signal]:
        return super().wants(trace) | (bytes_to_tell(trace) if _work(trace) is None else frozenset())

    def examine(self, trace: Trace) -> Evidence | None:
        work = _work(trace)
        if work is None:
            return None
        hot = f", most of it in line {work.where[0].line}" if work.where else ""
        meanwhile = f"; the step itself waits up to {format_number(work.held_ms)} ms for it" if work.held_ms else ""
        if trace.fact("profile"):  # which tells functions, at best
            hot = f", in {trace.producers[0].qualname}" if trace.producers else ""
        return Evidence(
            f"Python takes {format_number(work.ms)} ms of a {format_number(trace.step_ms)} ms step to make each "
            f"batch{hot}; "
            f"its lines {SAYS[work.kind].format(calls=work.calls)}{meanwhile}",
            {"python_ms": work.ms, "calls_per_step": work.calls, "left_share": work.left, "held_ms": work.held_ms},
            work.where,
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        work = _work(trace)
        if work is None:
            return []
        aside = work.kind in ("beside", "waits")
        spread = (0.5, 1.1) if aside or work.kind == "work" else (0.8, 1.1)
        if work.hand is not None:
            return [Drop({Category.PYTHON: work.ms * (1 - work.left)}, 0.0 if aside else 1.0, spread)]
        cured, lock = _cured(trace.pipeline, work), work.held_ms > 0
        if cured is None:
            return [Supply(work.left, work=work.left, share=work.share, lock=lock, spread=spread)]
        return [Supply(pipeline=cured, share=work.share, lock=lock, spread=spread)]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        work = _work(trace)
        kind = work.kind if work else "work"
        node = measured.making(trace) if work and work.hand is None else None
        if kind == "samples":
            fits = measured.fits(trace, node, COPIES)
            arrays = measured.first(trace, evidence.where, generators.as_arrays) if fits else ()
            made = arrays or measured.first(trace, evidence.where, chunks.handed_over)
            exact = not (arrays and dataset_caches.is_asked_beyond_end(trace))
            yield Prescription("edit", Effect.EXACT if exact else Effect.EQUIVALENT, WHOLE, edits=made)
        if node is not None:
            yield from again.same_again(trace, evidence.where, node)
        if work is not None and work.hand is not None:
            yield from again.in_lines(trace, evidence.where)
        for effect, says, cure in quicker.cures(evidence.numbers["calls_per_step"], kind):
            made = measured.first(trace, evidence.where, cure)
            if made:
                yield Prescription("edit", effect, says, edits=made)
        if kind != "samples":
            effect, says = quicker.in_words(kind, quicker.hottest(trace, evidence.where), on_jax=trace.on_jax)
            yield Prescription("edit", effect, says)

    def spot(self, source: Source) -> Iterable[Spot]:
        """Samples handed over one by one out of memory; loops over numbers, and over samples, in what makes input."""
        for slow in reached.slow_parts(source):
            if slow.call is not None:
                made = tuple(generators.as_arrays(source, edits.node_end(slow.call.func)[0]))
                exact = not step_loops.fits_several_epochs(source)  # see caching.asked_beyond
                cure = Prescription("edit", Effect.EXACT if exact else Effect.EQUIVALENT, WHOLE, edits=made)
            else:
                cure = Prescription("edit", Effect.EQUIVALENT, slow.instead)
            yield Spot(slow.start, slow.end, slow.says, cure)
        for call, says in images.unhelped(source):
            yield Spot(*call_index.operation_range(call), says, images.READ)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        xs, ys = np.random.rand(5000, 8).astype("float32"), np.random.rand(5000, 1).astype("float32")


        def samples():
            for x, y in zip(xs, ys):
                yield x, y


        spec = (tf.TensorSpec((8,), tf.float32), tf.TensorSpec((1,), tf.float32))
        ds = tf.data.Dataset.from_generator(samples, output_signature=spec).batch(100).prefetch(2)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds)
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        xs, ys = np.random.rand(5000, 8).astype("float32"), np.random.rand(5000, 1).astype("float32")


        def samples():
            for x, y in zip(xs, ys):
                yield x, y


        spec = (tf.TensorSpec((8,), tf.float32), tf.TensorSpec((1,), tf.float32))
        ds = tf.data.Dataset.from_tensor_slices(
            tuple(
                np.array(part, spec.dtype.as_numpy_dtype)
                for part, spec in zip(zip(*samples()), spec)
            )
        ).batch(100).prefetch(2)
        model = keras.Sequential([keras.layers.Dense(1)])
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
        @fact cpu_ms_per_step=10
        @producer samples ms=8 calls=64 line=9 hot=11
        @pipeline Generator ms=8 elements=64 line=20 > FlatMap ms=0.1 elements=64 line=20 > Batch ms=0.1
        > Prefetch buffer=2
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact cpu_ms_per_step=10
        @producer erase ms=9 calls=4 line=9 hot=15 visits=2000
        @pipeline Slices ms=0.1 > ParallelMapV2 ms=18 elements=4 parallelism=2 line=20 detail={"ops":{"PyFunc":1}}
        > Batch ms=0.1 > Prefetch
        """,
        """
        step     1111111111
        dispatch ddddddd...
        device   .......kkk
        @fact cpu_ms_per_step=12 step_cpu_ms=4 usable_cores=2 devices=[{"kind":"CPU"}]
        @producer windows ms=8 calls=1 line=9 hot=11 visits=2000
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
        """,
        """
        step    1111111111
        python  ppppppp...
        device  .......kkk
        @steps source=train_on_batch line=5
        @fact cpu_ms_per_step=10
        @fact sources={"train.py":"for e in E:\\n for i in r:\\n  x = d[i]\\n  y = f(x)\\n  m.train_on_batch(x,y)"}
        @line 3 ms=5
        @line 4 ms=2
        @line 5 ms=3
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact cpu_ms_per_step=2
        @sample read_call_bytes=+20e3
        @producer download ms=8 calls=1 line=9 hot=11
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
        """,
    )
    quiet = (
        """
        step    1111111111
        python  ppppppp...
        device  .......kkk
        @steps source=train_step line=5
        @fact cpu_ms_per_step=10
        @fact sources={"train.py":"for e in r:\\n a = act(o).numpy()\\n o = env.step(a)\\n b.append(o)\\n
        & train_step(stack(b))\\n"}
        @line 3 ms=6
        @line 5 ms=3
        @span function train_step start=0 end=1 line=5 times=40 every=10
        @span function act start=2 end=3 line=2 times=40 every=10
        @span readback numpy start=3 end=4 line=2 times=40 every=10
        """,
        """
        step     1111111111
        dispatch dd........
        device   ..kkkkkkkk
        @fact cpu_ms_per_step=18 step_cpu_ms=10 usable_cores=2 devices=[{"kind":"CPU"}]
        @producer windows ms=8 calls=1 line=9 hot=11 visits=2000
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact cpu_ms_per_step=10
        @producer samples ms=8 calls=1 line=9 hot=11
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
        """,
        """
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact cpu_ms_per_step=2
        @sample read_call_bytes=+60e6
        @producer scans ms=8 calls=1 line=9 hot=11
        @pipeline Generator ms=8 elements=1 line=20 > FlatMap ms=0.1 line=20 > Prefetch buffer=2
        """,
    )


def _work(trace: Trace) -> Work | None:
    return _in_pipeline(trace) or _in_loop(trace) or _waits(trace)


def _waits(trace: Trace) -> Work | None:
    """Python that computes nothing, and reads too little for a disk to be the reason."""
    found = waiting(trace)
    if found is None or for_bytes(trace, found) is not False:
        return None
    calls = sum(p.calls_per_step for p in input_feed.user_producers(trace))
    hand = handmade_input(trace) if found.by_hand else None
    return Work("waits", found.ms, calls, found.where, max(found.left, 1 / ASIDE), 1.0, hand)


# -- Python behind a tf.data pipeline


def _in_pipeline(trace: Trace) -> Work | None:
    several = input_feed.user_producers(trace)
    ms = sum(p.ms_per_step for p in several)
    busy, wait = input_feed.busy_cores(trace), trace.mean(Category.INPUT)
    held = min(ms, held_up_ms(trace)) if not input_feed.usual_step_waits(trace) else 0.0
    if not several or wait + held < input_feed.MIN_WAIT_SHARE * trace.step_ms or ms < 0.5 * wait:
        return None
    # Python that waits for a core that others took does not wait for the world.
    idle = trace.step_ms * max(1 - busy - stalls.crowding_cores(trace), 0.0) if busy is not None else 0.0
    lines = input_feed.merge_producer_lines(several)
    calls = sum(p.calls_per_step for p in several)
    interpreted = is_interpreted(lines, ms / max(calls, 1e-9))
    if idle > WAITING * min(ms, trace.step_ms) and not interpreted:
        return None
    pipe = trace.pipeline
    hot = [line.place for line in lines[:3]]
    others = [*(p.place for p in several[:2]), *(w.place for w in (pipe.python if pipe else ()))]
    where = host_work.distinct_places((*hot, *source_locations.wrapping_places(trace, hot[:1]), *others))
    kind, left, share = _kind(trace, calls, ms, interpreted, where)
    return Work(kind, ms, calls, where, left, share, held_ms=held)


def _kind(
    trace: Trace, calls: float, ms: float, interpreted: bool, where: tuple[Place, ...]
) -> tuple[str, float, float]:
    """What the Python does, what a cure leaves of its time, and the part of the steps that gain."""
    pipe = trace.pipeline
    epochs = dataset_caches.expected_passes(trace, pipe) if pipe else 1
    random = any((text := recorded_source(trace, p.file)) is not None and text.random_at(p.line) for p in where[:2])
    generated = pipe is None or any(n.name == "Generator" for n in pipe.nodes)
    generated = generated or (pipe is not None and any("python" in w.detail for w in pipe.written))
    ready = min(calls * input_feed.READY_ELEMENT_US / 1e3 / ms, 1.0)
    if calls >= quicker.SAMPLES and generated and not random:
        return "samples", ready, 1.0
    if interpreted:
        # In a map, some tens of TensorFlow ops take over, called for each element; or, where they are hardly
        # quicker, for a whole batch.
        ops = calls * OPS_MS / ms if not generated and calls >= quicker.SAMPLES else 0.0
        return "loop", max(VECTORISED, ops if ops < OPS_HELP else 0.0), 1.0
    if calls >= quicker.SAMPLES and generated:
        return "samples", 0.3, 1.0
    if not random and epochs > 1:
        return "once", ready, 1 - 1 / epochs
    return "work", 1 / max(1 + input_feed.idle_cores(trace), 1.0), 1.0


def _cured(pipe: Pipeline | None, work: Work) -> Pipeline | None:
    """The pipeline with less work in the nodes that run Python; None without counters of them."""
    if pipe is None:
        return None
    changed: list[Node] = []
    for node in pipe.nodes:
        if node.name == "Generator" or (node.written is not None and node.family == "Map" and node.written.python):
            changed.append(replace(node, ms=node.ms * work.left))
        elif (
            work.kind == "samples"
            and node.family == "Map"
            and node.written
            and input_feed.can_take_batches(node.written)
        ):
            # Whole batches arrive: the maps behind are called once for each.
            changed.append(
                replace(
                    node, ms=min(node.ms, input_feed.BATCH_CALL_MS + work.calls * input_feed.READY_ELEMENT_US / 1e3)
                )
            )
        elif work.kind == "samples" and node.family == "FlatMap":
            changed.append(replace(node, ms=0.0))
    return pipe.changed(*changed) if any(n.ms > 0 for n in pipe.nodes) and changed else None


# -- Python in the loop itself


def _in_loop(trace: Trace) -> Work | None:
    hand = handmade_input(trace)
    if hand is None or hand.ms < input_feed.MIN_WAIT_SHARE * trace.step_ms or hand.waiting > WAITING:
        return None
    if not hand.interpreted and (input_follows_model(trace) or only_converts(trace, hand)):
        return None
    found = hand.feeding
    rest = trace.step_ms - hand.ms
    if hand.interpreted:
        kind, left = "loop", VECTORISED
    elif found.random and not found.data:
        kind, left = "drawn", VECTORISED
    elif not found.random and found.repeated:
        kind, left = "once", VECTORISED
    else:
        # In a thread beside the step as much is hidden as the step is long and cores are idle.
        kind, left = "beside", 1 - min(rest * min(input_feed.idle_cores(trace), 1.0) / hand.ms, 1.0)
    return Work(kind, hand.ms, 1.0, hand.where, left, 1.0, hand)
