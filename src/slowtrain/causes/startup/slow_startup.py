from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, compiling, writtenout
from slowtrain.model import Edit, Effect, Evidence, Phase, Prescription, Signal, Spot, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import graphloops, kerascalls
from slowtrain.source.spots import reached
from slowtrain.source.spots.compute import layered
from slowtrain.source.spots.startup import unrolled
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import avoidable_start, start_parts
from slowtrain.trace.signals.host.avoidable_start import AvoidableKind, AvoidableStart
from slowtrain.whatif import Remedy, Skip

LEAST_MS = 1000.0  # of what could be avoided: an ordinary model traces and starts in about that


class SlowStartup(Cause):
    """Starting and compiling the model take a large part of a short run.

    ## What it means
    Before the first step TensorFlow is imported, the GPU set up, the model built, its train function traced, and
    the graph optimised and perhaps compiled by XLA. A long run does not notice; a run of a few
    dozen steps may spend nearly all its time there. Keras 3 compiles with XLA by default on a GPU.

    ## How it is recognised
    The phases of the run are timed, and the evidence gives the start by part: imports, the first operation on the
    GPU (by samples of the main thread), tracing, compilation with the first execution. Reported is only what can be
    avoided, of at least a second and longer than all
    steps of the run together: compiling by XLA, tracing of a layer that is written out once
    for each time step (`unroll=True`, a Python loop) or of whole training steps (a Python loop around them in a
    `tf.function`), or models built again and again before training. Two kinds are reported however long the run is: a
    function that is traced for one shape after the other before it is called (`get_concrete_function`), and a second
    compilation by XLA for the last, smaller batch of an epoch, of which TensorFlow writes no trace: a step of at least
    20 times the median. Importing TensorFlow
    takes the seconds that it takes and is no finding; tracing over and over during training is `retracing` or
    `compile-in-loop`.

    Without XLA the start is shorter and each step on a GPU longer, since its kernels are launched one by one. Both
    prices are given, with the number of steps at which they meet; the saving is what is left of the first after the
    second. What unfused kernels compute longer is not known.

    ## What to do
    Give short runs `compile(jit_compile=False)`, and leave `unroll=True` out of them; write repetition as
    `keras.layers.RNN`, `tf.scan` or `tf.while_loop`, which are traced once; keep weights (`get_weights()`), not
    cloned models; build only the model that is used (`{"small": lambda: MobileNetV2()}` builds none before the call);
    run several short experiments in one process, so that start-up is paid once. Batches of one size
    (`.batch(n, drop_remainder=True)`) are compiled once; the last samples of each epoch are then left out.
    `TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER` keeps compiled programs for the next run, and
    `XLA_FLAGS=--xla_gpu_per_fusion_autotune_cache_dir=FOLDER` (TensorFlow 2.17 or newer) what autotuning chose.

    ## When it is not worth it
    When this was only a trial of a run that will last for hours: XLA's and unrolled graphs may step faster.
    """

    title = "starting and compiling take a large part of the run"
    verdict_word = VerdictKind.STARTUP
    needs = frozenset({Signal.PHASES, Signal.TRACES})
    scope = "run"
    words = ("unroll", "GradientTape")
    beside = (".fit", "train_on_batch", "GradientTape")

    def examine(self, trace: Trace) -> Evidence | None:
        worst, steps = _worst(trace), _steps_ms(trace)
        if worst is None:
            return None
        says = (
            f"{worst.says} took {format_number(worst.ms / 1e3)} s {worst.when}, "
            f"all other steps of the run {format_number(steps / 1e3, 2)} s"
        )
        start = start_parts.start_sentence(trace)
        says = "; ".join(part for part in (says, worst.also, start) if part)
        numbers = {"startup_ms": worst.ms, "avoidable_ms": worst.avoidable_ms, "steps_ms": steps}
        return Evidence(says, {**numbers, **worst.numbers, **start_parts.start_numbers(trace)}, worst.places)

    def hangs_on_run_length_in(self, trace: Trace, evidence: Evidence) -> bool:
        """Nobody asked for XLA, or for a smaller last batch: Keras' own choice pays in a longer run."""
        worst, event = _worst(trace), compiling.first_training(trace)
        if worst is None:
            return False
        own = worst.kind is AvoidableKind.XLA and event is not None and compiling.by_default(trace, event)
        return own or worst.kind is AvoidableKind.LAST_BATCH

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        worst = _worst(trace)
        return [Skip(evidence.numbers["avoidable_ms"], spread=worst.spread)] if worst is not None else []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        worst = _worst(trace)
        if worst is None:
            return
        kind = worst.kind
        if kind is AvoidableKind.XLA:
            yield from compiling.left_out(trace, evidence)
            batches = compiling.for_last_batch(trace)
            yield from compiling.batches_of_one_size(trace, batches.places if batches else ())
        elif kind is AvoidableKind.LAST_BATCH:
            yield from compiling.batches_of_one_size(trace, evidence.where)
        elif kind in (AvoidableKind.LAYER, AvoidableKind.STEPS):
            yield from _rolled(trace, evidence, steps=kind is AvoidableKind.STEPS)
        elif kind is AvoidableKind.SHAPES:
            yield Prescription("advice", Effect.EQUIVALENT, "trace it once, with None for the sizes that change")
        else:
            once = "build the model once; to keep its states, keep get_weights()"
            yield Prescription("edit", Effect.EXACT, once)

    def spot(self, source: Source) -> Iterable[Spot]:
        """Layers and loops that are written out in the graph, in a run of a few steps."""
        known = list(unrolled.short(source))
        for call, says in layered.unrolled(source) if not known and "unroll" in source.text else ():
            rolled = "leave out unroll=True: the layer is a loop in the graph, traced once"
            cure = Prescription("edit", Effect.EQUIVALENT, rolled)
            yield Spot(edits.node_start(call), edits.node_end(call.func), says, cure)
        for given, says in known:
            changed: tuple[Edit, ...] = ()
            if isinstance(given, ast.Constant):
                changed = (edits.replace_node(source, given, "False"),)
            rolled = "leave out unroll=True: the layer is a loop in the graph, traced once"
            cure = Prescription("edit", Effect.EQUIVALENT, rolled, edits=changed)
            yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
        for loop, turns in reached.written_out(source, chained=True):
            says = f"the graph gets the ops of each of {turns} turns of this loop, which are all traced and compiled"
            rolled = "let the graph loop itself: for step in tf.range(n), or tf.while_loop and tf.scan"
            changed = tuple(graphloops.looped(source, loop.lineno))
            cure = Prescription("edit", Effect.EQUIVALENT, rolled, edits=changed)
            yield Spot(edits.node_start(loop), edits.node_end(loop.iter), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(64, 200, 8), np.random.rand(64, 1)
        model = keras.Sequential([keras.Input((200, 8)), keras.layers.LSTM(16, unroll=True), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(x, y)
        """,
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(64, 200, 8), np.random.rand(64, 1)
        model = keras.Sequential([keras.Input((200, 8)), keras.layers.LSTM(16, unroll=False), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(x, y)
        """,
        ),
    )

    fires = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=9000
        @event compile name=Functional start=0 end=1 data={"jit_compile":true,"site":["train.py",28]}
        @event trace name=multi_step_on_iterator start=0 end=9000 data={"nth":1,"training":true,"trace_ns":2000000000,
        & "site":["train.py",29]}
        @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",29]}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @event trace name=train_step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,
        & "site":["train.py",29],"graph":{"ops":9000,"types":{"ReadVariableOp":802,"AssignVariableOp":34}}}
        """,
        # Keras' cells read their variables once: the products with them tell.
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @event loop name=fit start=0 end=9600 data={"site":["train.py",29],
        & "weights":[{"class":"GRU","size":288,"shape":[3,96]},
        & {"class":"GRU","size":3072,"shape":[32,96]},{"class":"Dense","size":32,"shape":[32,1]}]}
        @event trace name=train_step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,
        & "site":["train.py",29],"graph":{"ops":9000,"types":{"ReadVariableOp":38,"AssignVariableOp":34},
        & "matrix":{"float32":504}}}
        """,
        # A model that had no weights yet when fit began.
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @event loop name=fit start=0 end=9600 data={"site":["train.py",29]}
        @event trace name=train_step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,
        & "site":["train.py",29],"graph":{"ops":6600,"types":{"ReadVariableOp":60,"AssignVariableOp":38,
        & "AssignSubVariableOp":8},"matrix":{"float32":400}}}
        """,
        # One trace for each length that there will be, before the first step; the steps take longer than that.
        """
        step    1111111111
        device  kkkkkkkkkk
        @repeat 1000
        @steps start=6000
        @phase import=1800 compile=4000
        @event trace name=step start=0 end=1500 data={"nth":1,"number":1,"training":true,"site":["train.py",9]}
        @event trace name=step start=1500 end=3000 data={"nth":2,"number":1,"training":true,"site":["train.py",9]}
        @event trace name=step start=3000 end=4500 data={"nth":3,"number":1,"training":true,"site":["train.py",9]}
        """,
        # Ten steps in one call, in a loop of Python.
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @fact source={"train.py":"def step(i):\\n  for _ in range(10):\\n    one(next(i))\\n"}
        @event trace name=several start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,
        & "site":["train.py",9],"graph":{"ops":9000,"types":{"ReadVariableOp":700,"AssignVariableOp":200,
        & "IteratorGetNext":10},"lines":[["train.py",3,900,900]]}}
        """,
        # A solver's steps, which read no weights in each turn.
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @fact sources={"train.py":"import tensorflow as tf\\n@tf.function\\ndef step(x):\\n  with tf.GradientTape() as
        & tape:\\n    for _ in range(45):\\n      x = x + tf.sin(x)\\n  return tape.gradient(x, v)\\nstep(x)\\n"}
        @event trace name=step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,
        & "site":["train.py",9],"graph":{"ops":9000,"types":{"ReadVariableOp":9,"AssignVariableOp":4},
        & "repeated":{"add":450,"Sin":450},"chain":900,"lines":[["train.py",7,900,900],["train.py",5,7,0]]}}
        """,
        # Left to Keras, which compiles with XLA on a GPU.
        """
        step    1111111111
        device  kk........
        @fact devices=[{"kind":"GPU"}]
        @phase import=1800 compile=9000
        @device busy=2 kernels=40
        @event compile name=Functional start=0 end=1 data={"jit_compile":true,"jit_compile_given":"absent",
        & "site":["train.py",28]}
        @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",29]}
        @event trace name=multi_step_on_iterator start=0 end=9000 data={"nth":1,"training":true,"trace_ns":2000000000,
        & "site":["train.py",29],"graph":{"ops":1600,"types":{"Const":500,"ReadVariableOp":100}}}
        """,
        # The last batch of the only epoch is smaller.
        """
        step    1111111111
        device  kkkkkkkkkk
        @repeat 40
        @steps line=3 start=500
        @more python=1500 every=40
        @phase import=1800 compile=400
        @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",3],
        & "data":{"shape":[1270,8]},"batch_size":32}
        @event trace name=multi_step_on_iterator start=0 end=400 data={"nth":1,"training":true,"trace_ns":200000000,
        & "site":["train.py",3]}
        """,
    )
    quiet = (
        # Without XLA all steps together would take as much longer as the start is shorter.
        """
        step    1111111111
        device  kk........
        @fact devices=[{"kind":"GPU"}]
        @phase import=1800 compile=9000
        @device busy=2 kernels=40
        @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",29]}
        @event trace name=multi_step_on_iterator start=0 end=9000 data={"nth":1,"training":true,"trace_ns":2000000000,
        & "site":["train.py",29],"graph":{"ops":60000,"types":{"Const":5000,"ReadVariableOp":100}}}
        """,
        # A long last step where all batches are of one size.
        """
        step    1111111111
        device  kkkkkkkkkk
        @repeat 40
        @steps line=3 start=500
        @more python=1500 every=40
        @phase import=1800 compile=400
        @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",3],
        & "data":{"shape":[1280,8]},"batch_size":32}
        @event trace name=multi_step_on_iterator start=0 end=400 data={"nth":1,"training":true,"trace_ns":200000000,
        & "site":["train.py",3]}
        """,
        # The first step of each of two shapes.
        """
        step    1111111111
        device  kkkkkkkkkk
        @steps start=6000
        @phase import=1800 compile=4000
        @event trace name=step start=0 end=2000 data={"nth":1,"number":1,"training":true,"site":["train.py",9]}
        @event trace name=step start=2000 end=4000 data={"nth":2,"number":1,"training":true,"site":["train.py",9]}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=1800 compile=6000
        @event loop name=fit start=0 end=9600 data={"site":["train.py",29],
        & "weights":[{"class":"Dense","size":288,"shape":[3,96]},
        & {"class":"Dense","size":9216,"shape":[96,96]}]}
        @event trace name=train_step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,
        & "site":["train.py",29],"graph":{"ops":900,"types":{"ReadVariableOp":38,"AssignVariableOp":34},
        & "matrix":{"float32":6}}}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @phase import=4000 compile=600
        @event trace name=train_step start=0 end=600 data={"nth":1,"training":true,"trace_ns":500000000,
        & "site":["train.py",29]}
        """,
        """
        step    11111111111111111111111111111111111111111111111111111111111111111111111111111111
        device  kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
        @phase import=1800 compile=2500
        @event trace name=train_step start=0 end=2500 data={"nth":1,"training":true,"trace_ns":500000000,
        & "site":["train.py",29]}
        """,
    )


def _worst(trace: Trace) -> AvoidableStart | None:
    """Of what could be avoided the part that surely saves most; None of little, and where the steps take longer."""
    steps = _steps_ms(trace)
    parts = (compiling.by_xla(trace), writtenout.unrolled(trace), avoidable_start.repeated_model_building(trace))
    longer = [part for part in parts if part is not None and part.ms >= steps]
    found = [part for part in (*longer, avoidable_start.repeated_shape_traces(trace)) if part is not None]
    found = [part for part in found if part.avoidable_ms >= LEAST_MS and part.least_ms > 0]
    last_batch = compiling.for_last_batch(trace)
    found += [last_batch] if last_batch is not None else []
    return max(found, key=lambda part: part.least_ms, default=None)


def _rolled(trace: Trace, evidence: Evidence, *, steps: bool) -> Iterable[Prescription]:
    """One turn in the graph in place of all of them. ``steps``: whole training steps are written out."""
    looped = measured.first(trace, evidence.where, graphloops.looped)
    if looped or steps:
        yield Prescription("edit", Effect.EQUIVALENT, "let the graph loop itself: for _ in tf.range(n)", edits=looped)
        return
    says = "leave out unroll=True, or write the repetition as an RNN layer or tf.scan"
    made = measured.first(trace, evidence.where, kerascalls.rolled)
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=made)


def _steps_ms(trace: Trace) -> float:
    """All steps but those that traced."""
    traced = sum(min(e.ms, trace.run_ms) for e in trace.events_of("trace"))
    named = {str(p): trace.run.ms(str(p)) for p in (Phase.STEPS, Phase.WARMUP)}
    windowed = float(trace.steps.ms[trace.steps.windowed].sum()) if len(trace.steps) else 0.0
    windowed = max(windowed - trace.run.ms(str(Phase.STOPPED)), 0.0)
    return max(sum(named.values()) + windowed - (traced if named[str(Phase.WARMUP)] >= traced else 0.0), 0.0)
