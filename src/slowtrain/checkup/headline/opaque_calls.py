"""Why the inside of a call is unknown, and how to look into it."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.columns.spans import Event
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.run_division.recording_steps import batches_per_execution

# A deep window begins after this many steps and this much training time (capture/windows/deep_windows.py). The time is
# doubled, because the run's own steps do not begin exactly where the recorder starts to count.
STEPS_BEFORE_WINDOW, MS_BEFORE_WINDOW = 15, 600.0
MIN_LONG_STEP_MS = 500.0  # few such steps fit completely into a window
MIN_OPAQUE_SHARE = 0.2  # of a step that could not be divided further: a smaller part hides no cause


@dataclass(frozen=True)
class Opacity:
    """``why`` continues a sentence after "cannot be attributed". ``advice`` is the next step."""

    why: str
    advice: str


WINDOWS_OFF = Opacity(
    " because the run was recorded without the profiler's short windows",
    "record it without --no-windows (windows=False): the profiler's windows show the inside of a call",
)
WINDOW_UNREAD = Opacity(
    " because the profile of its deep window cannot be read",
    "run it again and do not change the profiles (window-1, …) in the recording's folder",
)
OPS_UNSEEN = Opacity(
    " because the profiler recorded no operation in it: it omits operations of a few microseconds",
    "give each call more work (a larger batch, several steps in one tf.function), then run it again",
)
NO_GPU_TIMELINE = Opacity(
    " because the profiler recorded nothing on the GPU",
    "give the profiler access to the GPU: CUPTI (rocprofiler on AMD) must be installed with the framework and "
    "permitted",
)
MANY_BATCHES = Opacity(
    " because a call runs many steps and the run has too few calls for a profiler window; train for longer, or call "
    "a function for each step",
    "train for longer, or loop over the batches in Python and call a tf.function for each, then run it again",
)
SHORT_RUN = Opacity(
    " because the run was too short for a profiler window; train for longer",
    "run it again and train for longer: the profiler starts after 15 steps and 0.3 s",
)
LONG_STEPS = Opacity(
    " because no complete step was in the profiler's short windows",
    "train for longer, or make a step shorter (fewer batches in one call), then run it again",
)
NO_WINDOW = Opacity(
    " because no profiler window was recorded",
    "run it again; if the script starts a profiler of its own, switch that off: only one can run at a time",
)


def find_opacity(trace: Trace) -> Opacity | None:
    """Why calls were not looked into; None if they were. A profile holds no more than its file."""
    if trace.fact("profile") or not len(trace.steps):
        return None
    if trace.kernels is not None:
        if not trace.kernels.count and trace.on_accelerator and trace.device is None:
            return NO_GPU_TIMELINE
        return None if trace.kernels.count else OPS_UNSEEN
    if trace.fact("windows") is False:
        return WINDOWS_OFF
    if trace.fact("unread"):
        return WINDOW_UNREAD
    looked = any(e.name == "profile" for e in trace.events_of("window"))
    if _trains_many_batches(trace):
        return MANY_BATCHES
    if _is_short_run(trace) or (looked and trace.step_ms < MIN_LONG_STEP_MS):
        return SHORT_RUN
    return LONG_STEPS if looked else NO_WINDOW


def opacity_hiding_cause(trace: Trace) -> Opacity | None:
    """The same, if the undivided part of a step is large enough to hide a cause."""
    return find_opacity(trace) if trace.share(Category.UNATTRIBUTED) >= MIN_OPAQUE_SHARE else None


def _is_short_run(trace: Trace) -> bool:
    """Whether the run ended before a deep window could begin."""
    steps = trace.steps
    return int(steps.number[-1]) < STEPS_BEFORE_WINDOW or float(steps.end_ms[-1] - steps.start_ms[0]) < MS_BEFORE_WINDOW


def _trains_many_batches(trace: Trace) -> bool:
    """Whether a step is a call that trains on many batches: of Keras, or a loop over batches in a function."""
    if trace.steps.source == "fit":
        return any(batches_per_execution(e) > 1 for e in trace.events_of("loop") if e.name == "fit")
    return trace.steps.source.startswith("function") and any(map(_loops_over_batches, trace.events_of("trace")))


def _loops_over_batches(traced: Event) -> bool:
    """Whether a training function loops over batches in its graph."""
    kinds = set((traced.data.get("graph") or {}).get("types") or ())
    asks = "IteratorGetNext" in kinds and bool(kinds & {"While", "StatelessWhile"})
    return bool(traced.data.get("training")) and (asks or "ReduceDataset" in kinds)
