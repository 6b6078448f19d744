"""Why the inside of a call is unknown, and how to look into it."""

from __future__ import annotations

from slowtrain.model import Category
from slowtrain.trace import Event, Trace
from slowtrain.trace.steps import executions
from slowtrain.values import dataclass

# A deep window begins after this many steps and this much training time (capture/window.py). The time is doubled,
# because the run's own steps do not begin exactly where the recorder starts to count.
WINDOW_STEPS, WINDOW_MS = 15, 600.0
LONG_STEP_MS = 500.0  # few such steps fit completely into a window
LITTLE = 0.2  # of a step that could not be divided further: a smaller part hides no cause


@dataclass(frozen=True)
class Blind:
    """``why`` continues a sentence after "could not be told apart". ``advice`` is the next step."""

    why: str
    advice: str


OFF = Blind(
    " without the profiler's short windows: record it with them",
    "record it without --no-windows (windows=False): the profiler's windows tell what a call does inside",
)
UNREAD = Blind(
    ", as the profile of its deep window cannot be read",
    "run it again, and leave the profiles (window-1 and so on) in the recording's folder as they are",
)
UNSEEN = Blind(
    ", as the profiler saw no operation in it: it leaves out those of a few microseconds",
    "give each call more to do (a larger batch, several steps in one tf.function), then run it again",
)
NO_GPU = Blind(
    ", as the profiler recorded nothing of the GPU",
    "let the profiler see the GPU: CUPTI (rocprofiler on AMD) has to be installed beside the framework, and permitted",
)
MANY = Blind(
    ": a call runs many steps, and too few calls came for a look inside; let it train for longer, or call a function "
    "for each step, not for many",
    "let it train for longer, or let Python go through the batches and call a tf.function for each, then run it again",
)
SHORT = Blind(
    ": the run was too short for a look inside; let it train for longer",
    "let it train for longer, and run it again: the profiler looks into some steps after 15 steps and 0.3 s",
)
LONG = Blind(
    ": no step lay whole in the profiler's short windows",
    "let it train for longer, or make a step shorter (fewer batches in one call), then run it again",
)
NONE = Blind(
    ": no look inside came about",
    "run it again; where the script uses a profiler of its own, without that one: there can be only one at a time",
)


def find(trace: Trace) -> Blind | None:
    """Why calls were not looked into; None if they were. A profile holds no more than its file."""
    if trace.fact("profile") or not len(trace.steps):
        return None
    if trace.kernels is not None:
        if not trace.kernels.count and trace.on_accelerator and trace.device is None:
            return NO_GPU
        return None if trace.kernels.count else UNSEEN
    if trace.fact("windows") is False:
        return OFF
    if trace.fact("unread"):
        return UNREAD
    looked = any(e.name == "profile" for e in trace.events_of("window"))
    if _many(trace):
        return MANY
    if _short(trace) or (looked and trace.step_ms < LONG_STEP_MS):
        return SHORT
    return LONG if looked else NONE


def hides(trace: Trace) -> Blind | None:
    """The same, if the undivided part of a step is large enough to hide a cause."""
    return find(trace) if trace.share(Category.UNATTRIBUTED) >= LITTLE else None


def _short(trace: Trace) -> bool:
    """Whether the run ended before a deep window could begin."""
    steps = trace.steps
    return int(steps.number[-1]) < WINDOW_STEPS or float(steps.end_ms[-1] - steps.start_ms[0]) < WINDOW_MS


def _many(trace: Trace) -> bool:
    """Whether a step is a call that trains on many batches: of Keras, or a loop over batches in a function."""
    if trace.steps.source == "fit":
        return any(executions(e) > 1 for e in trace.events_of("loop") if e.name == "fit")
    return trace.steps.source.startswith("function") and any(map(_loops, trace.events_of("trace")))


def _loops(traced: Event) -> bool:
    """Whether a training function loops over batches in its graph."""
    kinds = set((traced.data.get("graph") or {}).get("types") or ())
    asks = "IteratorGetNext" in kinds and bool(kinds & {"While", "StatelessWhile"})
    return bool(traced.data.get("training")) and (asks or "ReduceDataset" in kinds)
