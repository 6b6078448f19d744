"""Python of the script in each step that makes no input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import LITTLE, Cause
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.locations.own_python_lines import OwnPython, own_python
from slowtrain.script.locations.recorded_sources import is_interpreted
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import vectorising
from slowtrain.source.cures.input import quicker
from slowtrain.source.spots.host import insteps, loops
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

# Of the time that goes: array code takes a tenth of a loop in bytecode, or less. Of calls into libraries nobody can
# tell before it is tried how much has to stay, hence half of them with a range up to all.
LOOP_GOES, CALLS_GO = 0.9, 0.5
MOST_PLACES = 3
WAITS = 0.5  # of the Python: more of it without processor time is waiting, not computing


class PythonInStep(Cause):
    """The script's own Python, which makes no input, takes a large part of each step.

    ## What it means
    The loop around the training call does more than training: it goes through pixels, rows or records in Python,
    keeps statistics, steps a simulation. The device idles meanwhile, since Python and the training call take turns in
    one thread.

    ## How it is recognised
    The time of a step that no call of the framework covers, with the lines that it goes to: from tracing lines in a few
    steps, or from samples of the main thread where the run has too few steps for that. Lines that make the next batch
    are `python-input` or `per-step-feed`; lines that read values back, write summaries, save, or build data sets have
    causes of their own, and so do eager steps and callbacks. Python that gets longer from step to step is
    `growing-step`.

    ## What to do
    Write loops over elements in array code (NumPy works on whole arrays at once), or in TensorFlow ops inside the
    `tf.function`. Move what need not happen in each step out of the loop, or do it every hundredth step. What only
    prepares data belongs into a `map` of the data set, which runs beside the step.

    ## When it is not worth it
    When the Python is the work itself, such as a simulator that cannot be written for many states at once. Then several
    processes can run it beside the training.
    """

    title = "Python of the script takes a large part of each step"
    needs = frozenset({Signal.STEPS, Signal.LINES})
    recorded = frozenset({Signal.FEEDS, Signal.PYTHON})  # a profile does not tell whose Python it is
    symptoms = frozenset({Category.PYTHON})
    words = step_loops.STEP_WORDS

    def examine(self, trace: Trace) -> Evidence | None:
        found = own_python(trace)
        if found is None or found.ms < LITTLE * trace.step_ms:
            return None
        first = found.lines[0]
        turns = f", {first.visits:,.0f} times" if found.traced and first.visits >= 2 else ""
        waits = _waiting(trace, found)
        idle = (
            f"; for {format_number(waits)} ms of it Python waits and computes nothing"
            if waits > WAITS * found.ms
            else ""
        )
        return Evidence(
            f"Python of the script takes {format_number(found.ms)} of each step's {format_number(trace.step_ms)} ms"
            f" ({found.ms / trace.step_ms:.0%}); line {first.place.line} takes {first.share:.0%} of that{turns}{idle}",
            {
                "python_ms": found.ms,
                "step_share": found.ms / trace.step_ms,
                "hottest_line_ms": first.ms,
                "hottest_line_visits": first.visits,
                "waiting_ms": waits,
            },
            tuple(line.place for line in found.lines[:MOST_PLACES]),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = own_python(trace)
        if found is None:
            return []
        goes = found.ms * (LOOP_GOES if _loops(found) else CALLS_GO)
        # The least is what the hottest line alone gives, with the same part of it left.
        least = found.lines[0].share
        computing = 1 - evidence.numbers["waiting_ms"] / found.ms
        return [Drop({Category.PYTHON: goes}, computing, spread=(least, found.ms / goes))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = own_python(trace)
        looping = found is not None and _loops(found)
        yield Prescription("advice", Effect.EQUIVALENT, _advice(trace, evidence.where, looping=looping))

    def spot(self, source: Source) -> Iterable[Spot]:
        """Loops over a thousand elements and more in each turn of a loop that trains, which make no input."""
        for loop, turns in insteps.beside_steps(source):
            says = f"in each training step Python takes {turns:,} turns of this loop"
            whole = "write the loop for whole arrays (NumPy), or in array operations inside the tf.function"
            found = vectorising.vectorised(source, loop.lineno)
            effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
            cure = Prescription("edit", effect, whole, edits=found.edits if found is not None else ())
            yield Spot(*loops.head(loop), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x = np.random.rand(512, 48, 48).astype("float32")
        w = tf.Variable(tf.ones((48, 48)))
        data = tf.data.Dataset.from_tensor_slices(x).batch(32)


        @tf.function
        def step(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((batch * w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss


        squares = np.zeros((48, 48))
        for epoch in range(4):
            for batch in data:
                loss = step(batch)
                weights = w.numpy()
                for i in range(48):
                    for j in range(48):
                        squares[i, j] += weights[i, j] ** 2
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x = np.random.rand(512, 48, 48).astype("float32")
        w = tf.Variable(tf.ones((48, 48)))
        data = tf.data.Dataset.from_tensor_slices(x).batch(32)


        @tf.function
        def step(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((batch * w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss


        squares = np.zeros((48, 48))
        for epoch in range(4):
            for batch in data:
                loss = step(batch)
                weights = w.numpy()
                squares += weights**2
        """,
        ),
    )

    fires = (
        # A loop over pixels behind the training call.
        """
        step     1111111111
        python   ppppppppp.
        device   .........k
        @steps source=function_step line=5
        @fact sources={"train.py":"for x in ds:\\n step(x)\\n for i in r:\\n  for j in r:\\n   t += h[i][j]\\n"}
        @line 5 ms=6 visits=9000
        @line 4 ms=3 visits=3000
        @line 2 ms=1 visits=1
        @span next next start=0 end=0.01 line=1 times=40 every=10
        @span function step start=9 end=10 line=2 times=40 every=10
        """,
        # What a data set gave is worked on before the call, line by line.
        """
        step     1111111111
        python   pppppp....
        device   ......kkkk
        @steps source=function_step line=3
        @fact sources={"train.py":"for x in ds:\\n y = blur(x)\\n step(y)\\n"}
        @line 2 ms=6 visits=1
        @line 3 ms=4 visits=1
        @span next next start=0 end=0.01 line=1 times=40 every=10
        @span function step start=6 end=10 line=3 times=40 every=10
        """,
        # Too few steps for a window: the samples of the main thread tell the line.
        """
        step     11111111111111111111
        python   ppppppppppppppp.....
        device   ...............kkkkk
        @steps source=function_step line=2
        @span next next start=0 end=0.01 line=1 times=40 every=20
        @span function step start=15 end=20 line=2 times=40 every=20
        @span stack <listcomp> start=5 end=5 line=4 times=40 every=20
        @stack 4 ms=600
        """,
    )
    quiet = (
        # The lines make the batch: input/python-input.
        """
        step    1111111111
        python  ppppppp...
        device  .......kkk
        @steps source=train_on_batch line=5
        @fact sources={"train.py":"for e in E:\\n for i in r:\\n  x = d[i]\\n  y = f(x)\\n  m.train_on_batch(x,y)"}
        @line 3 ms=5
        @line 4 ms=2
        @line 5 ms=3
        @span on_batch train start=7 end=10 line=5 times=40 every=10
        """,
        # They write summaries: host/heavy-callback.
        """
        step    1111111111
        python  pppppp....
        device  ......kkkk
        @steps source=step line=2
        @fact sources={"train.py":"for x in ds:\\n    loss, g = step(x)\\n    tf.summary.histogram('g', g)\\n"}
        @line 2 ms=1
        @line 3 ms=5
        @span next next start=0 end=0.01 line=1 times=40 every=10
        @span function step start=6 end=10 line=2 times=40 every=10
        """,
        # They read values back: transfer/per-step-readback.
        """
        step     1111111111
        device   kkkkkk....
        python   ......pppp
        @steps source=function_step line=2
        @line 3 ms=4 visits=1
        @line 2 ms=6 visits=1
        @span next next start=0 end=0.01 line=1 times=40 every=10
        @span function step start=0 end=6 line=2 times=40 every=10
        @span readback numpy start=6 end=6.1 line=3 times=40 every=10
        """,
        # Keras' own Python.
        """
        step     1111111111
        python   ppp.......
        device   ...kkkkkkk
        @line 9 ms=3
        """,
        # An eager step: host/eager-step.
        """
        step     1111111111
        python   pppppp....
        dispatch ......dddd
        @steps source=gradient line=4
        @fact eager_step=true
        @line 5 ms=6
        @line 4 ms=4
        """,
    )


def _loops(found: OwnPython) -> bool:
    """Whether the time goes to the interpreter: very many visits of quick lines."""
    return found.traced and is_interpreted(found.lines, found.ms)


def _waiting(trace: Trace, found: OwnPython) -> float:
    """Ms of this Python in which the main thread had no processor; 0 where that was not measured."""
    main = trace.facts.get("main_cpu_ms")
    return max(found.ms - float(main), 0.0) if main is not None else 0.0


def _advice(trace: Trace, where: Sequence[Place], *, looping: bool) -> str:
    function = quicker.hottest(trace, where)
    of = f" of {function}" if function else ""
    if looping:
        graph = "a jitted function" if trace.on_jax else "the tf.function"
        return f"write the loop{of} for whole arrays (NumPy), or in array operations inside {graph}"
    return f"move this work{of} out of the loop, into the data set's map, or do it every hundredth step"
