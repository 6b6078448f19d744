"""Device memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, Spot, VerdictKind
from slowtrain.script.locations import growth_lines
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.memory import models
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.memory import growth_suspects, memory_growth
from slowtrain.whatif import Remedy

LEAST_BYTES = 32 << 20  # gained after warm-up: cuDNN's workspaces and the allocator's rounding come and go by less
LONGEST_H = 30 * 24.0  # at a rate that fills the memory later than this, no run would notice
SOON_H = 24.0  # before a run of a day has ended: then nothing else matters as much


class DeviceLeak(Cause):
    """What TensorFlow has in use on the GPU grows from step to step, until an allocation fails.

    ## What it means
    Tensors are kept that nobody needs any more. A list of losses, predictions or gradients keeps each of them where
    it was computed, on the device, whose memory is small; with a persistent `GradientTape` also all that was
    recorded for it. A `History`, as `fit()` gives it back, keeps its model, with weights and what the optimizer has.

    ## How it is recognised
    TensorFlow's allocator is asked what is in use, not what it has taken from the driver (that is nearly all of
    the device from the start). The slope over steps after warm-up has to lie above zero with its 95 % interval,
    and to go on to the end. The container that keeps it, and the line that adds to it, are found as for host memory.

    ## What to do
    Take what is kept off the device: `float(loss)`, `prediction.numpy()`. Give buffers a limit. Make models once, or
    call `keras.backend.clear_session()` between them.

    ## When it is not worth it
    When what is kept is the result that the run is for, and it will fit: the evidence says when memory is full.
    """

    title = "Device memory grows"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    lines_shared_as = "kept tensor"
    needs = frozenset({Signal.DEVICE_MEMORY})
    scope = "run"
    matters = True
    words = ("fit(",)

    def examine(self, trace: Trace) -> Evidence | None:
        known = memory_growth.device_memory(trace)
        slopes = {name: memory_growth.memory_slope(trace, *series) for name, series in known.items()}
        grown = {n: s for n, s in slopes.items() if s is not None and s.grows and s.total_bytes >= LEAST_BYTES}
        if not grown:
            return None
        name, found = max(grown.items(), key=lambda item: item[1].total_bytes)
        why = growth_suspects.main_suspects(growth_suspects.growing_containers(trace), found.per_step)
        left = _left_bytes(trace, name, float(known[name][1][-1]))
        hours = found.hours(left, trace.step_ms, step_growth.slower_ms_per_step(trace))
        if hours is not None and hours > LONGEST_H:
            return None
        numbers = found.numbers(hours)
        unit = memory_growth.growth_unit(trace)
        what = "; ".join(one.said(unit) for one in why[:2]) or "what keeps it is behind none of the script's own names"
        said = [f"{name}: {found.said(unit)}", what, found.until(left, hours)]
        retraced = memory_growth.traces_per_step(trace) > 0
        return Evidence(
            "; ".join(filter(None, said)), numbers, growth_lines.growth_places(trace, why, retraced=retraced)
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # memory that is kept costs no time until it is full

    def spoils_in(self, trace: Trace, evidence: Evidence) -> bool:
        """A run that will fail today."""
        return evidence.numbers.get("full_in_h", LONGEST_H) < SOON_H

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        why = growth_suspects.main_suspects(
            growth_suspects.growing_containers(trace), evidence.numbers["per_step_bytes"]
        )
        kept = ", ".join(f"`{one.path}`" for one in why[:3]) or "what is kept"
        yield Prescription("advice", Effect.EXACT, f"put numbers or arrays into {kept}: float(loss), value.numpy()")
        yield Prescription("advice", Effect.EXACT, "give it a limit, or write it out and clear it")

    def spot(self, source: Source) -> Iterable[Spot]:
        """What fit() gave back, kept for each of many models."""
        for kept, turns in models.by_history(source):
            often = f"each of {turns}" if turns is not None else "each"
            says = f"a History holds its model: the weights of {often} that this loop trains stay in memory"
            cure = "keep history.history; let go of the model, and call keras.backend.clear_session() in each turn"
            yield Spot(edits.node_start(kept), edits.node_end(kept), says, Prescription("advice", Effect.EXACT, cure))

    fixes = (
        (
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(64, 4).astype("float32"), np.random.rand(64, 1).astype("float32")
        trials = []
        for width in range(1, 13):
            model = keras.Sequential([keras.layers.Dense(width), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            history = model.fit(x, y, verbose=0)
            trials.append((width, history))
        """,
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(64, 4).astype("float32"), np.random.rand(64, 1).astype("float32")
        trials = []
        for width in range(1, 13):
            model = keras.Sequential([keras.layers.Dense(width), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            history = model.fit(x, y, verbose=0)
            trials.append((width, history.history))
        """,
        ),
    )

    fires = (
        """
        step    1111111111
        device  ....kkkkkk
        @repeat 400
        @fact machine={"gpu": {"devices": [{"memory_total_bytes": 16000000000}]}}
        @grow memory GPU:0 from=600000000 by=1000000 every=40
        @grow held losses from=4 by=4 every=40 detail={"path":"losses","kind":"list","element":"EagerTensor",
        & "element_bytes":250000,"file":"train.py","named":"losses"}
        """,
    )
    quiet = (
        """
        step    1111111111
        device  ....kkkkkk
        @repeat 400
        @grow memory GPU:0 from=600000000 by=9000000 every=40 until=1200
        """,
        """
        step    1111111111
        device  ....kkkkkk
        @repeat 400
        @grow memory anonymous from=600000000 by=1000000 every=40
        """,
    )


def _left_bytes(trace: Trace, name: str, used: float) -> float | None:
    devices = trace.fact("machine", "gpu", "devices", default=())
    number = int(name.rpartition(":")[2] or 0)
    total = devices[number].get("memory_total_bytes") if number < len(devices) else None
    return max(float(total) - used, 0.0) if total else None
