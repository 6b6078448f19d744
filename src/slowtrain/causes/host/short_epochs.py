from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.array_statistics import median_value, unique_values
from slowtrain.columns.arrays import Floats, Ints
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import endless
from slowtrain.source.spots.host import short
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    distinct_places,
    is_in_callback,
    is_outermost,
    main_thread,
    starts_in_windows,
    starts_within,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Skip

LASTING = "let one iterator last for all epochs: fit(ds.repeat(), steps_per_epoch=len(ds)); in a loop, ds.repeat(n)"
LEAST = 20  # turns from one epoch to the next: of fewer epochs few can be saved


@dataclass(frozen=True)
class Turns:
    """From the last step of an epoch to the first of the next: how often, and ms of a usual one.

    ``making_ms`` of it an iterator over the training data is made; ``around_ms`` more are nobody's but Keras's own.
    ``epoch_steps`` and ``steps_ms`` are an epoch's.
    """

    count: float
    making_ms: float
    around_ms: float
    epoch_steps: float
    steps_ms: float
    places: tuple[Place, ...]


class ShortEpochs(Cause):
    """Epochs are so short that starting the next one takes a large part of the run.

    ## What it means
    Each epoch makes a new iterator over the data: its functions are instantiated, its threads and buffers begin
    again, the old one is torn down. That takes ten to a hundred milliseconds, however few steps follow. With two steps
    an epoch, or one over the whole data, most of the run goes there.

    ## How it is recognised
    At least twenty times an iterator over the training data was made between two steps of the same `fit` (or of the
    same loop). Their time is measured, and told apart from validation, callbacks and the filling of shuffle buffers.

    ## What to do
    Let one iterator last: `fit(ds.repeat(), steps_per_epoch=len(ds))` keeps it over all epochs, which stay as they
    are for callbacks and history. In a loop of your own go through `ds.repeat(epochs)` once. Arrays first become a
    data set: `tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(32)`.

    ## When it is not worth it
    When something has to be made anew for each epoch: data that changes, a cache that is to be read again.
    """

    title = "epochs of few steps: most of the time goes into starting them"
    needs = frozenset({Signal.STEPS, Signal.PHASES, Signal.CALLS})
    scope = "run"
    words = (".fit", "GradientTape", "train_on_batch")

    def examine(self, trace: Trace) -> Evidence | None:
        found = trace.once(_turns)
        if found is None:
            return None
        return Evidence(
            f"after each epoch ({format_number(found.epoch_steps)} step{'s' * (found.epoch_steps > 1)} in "
            f"{format_number(found.steps_ms)} ms) a new iterator is made "
            f"in {format_number(found.making_ms)} ms, {format_number(found.count)} times: "
            f"{format_number(found.count * found.making_ms / 1e3)} s of the run",
            {
                "epochs": found.count + 1,
                "epoch_steps": found.epoch_steps,
                "epoch_steps_ms": found.steps_ms,
                "making_ms": found.making_ms,
                "around_ms": found.around_ms,
            },
            found.places,
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = trace.once(_turns)
        if found is None:
            return []
        # Around it Keras tears down the old iterator, which goes, too, and sums up the epoch, which takes a ms or two.
        most = found.making_ms + found.around_ms
        return [Skip(found.count * most, spread=(0.9 * found.making_ms / most, 1.0))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        changed = measured.first(trace, evidence.where, endless.repeated)
        yield Prescription("edit", Effect.EQUIVALENT, LASTING, edits=changed)

    def spot(self, source: Source) -> Iterable[Spot]:
        """Hundreds of epochs of a few steps, of little data through dense layers."""
        for node, says in short.epochs(source):
            changed = tuple(endless.repeated(source, node.lineno))
            place = (
                call_index.operation_range(node)
                if isinstance(node, ast.Call)
                else (edits.node_start(node), edits.node_end(node))
            )
            yield Spot(*place, says, Prescription("edit", Effect.EQUIVALENT, LASTING, edits=changed))

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x = np.random.rand(60, 8).astype("float32")
        ds = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(60)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds, epochs=300, verbose=0)
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x = np.random.rand(60, 8).astype("float32")
        ds = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(60)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(ds.repeat(), epochs=300, verbose=0, steps_per_epoch=len(ds))
        """,
        ),
    )

    fires = (
        """
        step     1111111111
        device   kkkkkkkkkk
        @repeat 60
        @steps block=2 pause=30 line=9
        @phase epoch=870
        @span iterator made start=22 end=46 times=29 every=50
        """,
    )
    quiet = (
        # Between epochs there is something else.
        """
        step     1111111111
        device   kkkkkkkkkk
        @repeat 60
        @steps block=2 pause=30
        @phase epoch=870
        @span iterator made start=22 end=23 times=29 every=50
        @span callback Report.on_epoch_end start=23 end=47 times=29 every=50
        """,
        # Each of several calls of fit makes its own.
        """
        step     1111111111
        device   kkkkkkkkkk
        @repeat 60
        @steps block=2 pause=30
        @phase epoch=870
        @event loop name=fit start=0 end=20 times=30 every=50 data={"site":["train.py",20],"nested":0}
        @span iterator made start=22 end=46 times=29 every=50
        """,
        # Validation has an iterator of its own.
        """
        step     1111111111
        device   kkkkkkkkkk
        @repeat 60
        @steps block=2 pause=30
        @phase epoch=870
        @event loop name=evaluate start=21 end=48 times=29 every=50 data={"nested":1}
        @span iterator made start=22 end=46 times=29 every=50
        """,
    )


def _turns(trace: Trace) -> Turns | None:
    """None where there are too few, or where an epoch is not over after its steps."""
    steps, thread = trace.steps, main_thread(trace)
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    made = trace.lane("iterator")
    made = made.where((made.thread == thread) & ~starts_in_windows(trace, made))
    made = made.where(~starts_within(made, [e for e in trace.events_of("loop") if e.name != "fit"]))  # of validation
    made = made.where(is_outermost(made))
    if len(made) < LEAST or len(steps) < LEAST:
        return None
    at = np.searchsorted(steps.start_ms, made.start_ms, side="right") - 1
    between = (at >= 0) & (at < len(steps) - 1) & (made.start_ms >= steps.end_ms[at])
    turns = unique_values(at[between])
    call = np.searchsorted(np.array([e.start_ms for e in fits]), steps.start_ms, side="right")
    turns = turns[call[turns] == call[turns + 1]]
    if len(turns) < LEAST:
        return None
    making = np.bincount(at[between], made.ms[between], minlength=len(steps))[turns]
    around = steps.start_ms[turns + 1] - steps.end_ms[turns] - making - _other_ms(trace, turns)
    # Of a thinned run only some stretches are here.
    times = steps.whole.count / max(int(steps.steady.sum()), 1) if steps.whole is not None else 1.0
    epoch, making_ms = float(median_value(np.diff(turns))), float(median_value(making))
    # In a loop of one's own the rest is the user's. Tearing down takes no longer than making: what does is not known.
    around_ms = min(max(float(median_value(around)), 0.0), making_ms) if fits else 0.0
    usual = steps.steady if steps.steady.any() else np.ones(len(steps), dtype=bool)
    places = [e.place for e in fits] if fits else [steps.place]
    return Turns(
        count=len(turns) * times,
        making_ms=making_ms,
        around_ms=around_ms,
        epoch_steps=epoch,
        steps_ms=epoch * float(median_value(steps.ms[usual])),
        places=distinct_places(places),
    )


def _other_ms(trace: Trace, turns: Ints) -> Floats:
    """Of each turn the time of callbacks, and of validation outside them."""
    steps = trace.steps
    hooks = trace.lane("callback")
    hooks = hooks.where((hooks.thread == main_thread(trace)) & is_outermost(hooks))
    nested = [e for e in trace.events_of("loop") if e.name != "fit" and e.data.get("nested")]
    nested = [e for e in nested if not is_in_callback(trace, e)]
    start = np.concatenate((hooks.start_ms, [e.start_ms for e in nested]))
    ms = np.concatenate((hooks.ms, [e.ms for e in nested]))
    at = np.searchsorted(steps.start_ms, start, side="right") - 1
    between = (at >= 0) & (start >= steps.end_ms[np.maximum(at, 0)])
    return np.asarray(np.bincount(at[between], ms[between], minlength=len(steps))[turns])
