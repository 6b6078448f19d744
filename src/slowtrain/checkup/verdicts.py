"""The one-word verdicts: what bounds a steady step, and why the whole run is slow.

The step's verdict is the group of categories that takes most of its time. A cause's family never decides it. The run's
verdict is the step's, unless the run failed, ran out of memory, got slower, or could save most at its start. What
decides it is here too: whether a call can be looked into, what a cure gains, and whether the run is mostly start-up.
"""

from __future__ import annotations

from msgspec import Struct

from slowtrain.causes import class_of
from slowtrain.columns.spans import Event
from slowtrain.diagnose import MIN_SPEEDUP_BY_SCOPE, Findings
from slowtrain.model import Category, Diagnosis, Saving, VerdictKind
from slowtrain.number_text import MAX_PREDICTED_SPEEDUP, format_number, format_speedup
from slowtrain.trace import Trace
from slowtrain.trace.run_division.recording_steps import ELEMENTS_SOURCE, batches_per_execution
from slowtrain.trace.signals.device import op_work, step_bound
from slowtrain.trace.signals.host import start_parts

# A deep window begins after this many steps and this much training time (capture/windows/deep_windows.py). The time is
# doubled, because the run's own steps do not begin exactly where the recorder starts to count.
STEPS_BEFORE_WINDOW, MS_BEFORE_WINDOW = 15, 600.0
MIN_LONG_STEP_MS = 500.0  # few such steps fit completely into a window
MIN_OPAQUE_SHARE = 0.2  # of a step that could not be divided further: a smaller part hides no cause


class Opacity(Struct, frozen=True):
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


MIN_WIDE_RATIO = 3.0  # ratio of the high to the low end; beyond it no single figure represents the range
MIN_CLAIMED_SPEEDUP = MIN_SPEEDUP_BY_SCOPE["run"]  # a smaller predicted speed-up is not claimed


def claims_gain(diagnosis: Diagnosis) -> bool:
    """Whether a speed-up is claimed for the diagnosis's cure."""
    return diagnosis.saving.speedup >= MIN_SPEEDUP_BY_SCOPE[diagnosis.saving.scope]


def first_without_claim(findings: Findings) -> Diagnosis | None:
    """The first diagnosis that names where the time goes although its cure may give nothing."""
    return next((d for d in findings.diagnoses if not claims_gain(d) and d.saving.high >= MIN_CLAIMED_SPEEDUP), None)


def describe_diagnosis(diagnosis: Diagnosis) -> str:
    first = diagnosis.title[:1].lower() + diagnosis.title[1:]
    return f"{first}: curing {diagnosis.cause} would make the {diagnosis.saving.scope} {format_gain(diagnosis.saving)}"


def format_gain(saving: Saving) -> str:
    """The speed-up in words. A wide range is given with its ends; a range from zero with its upper end."""
    if saving.low <= 1.0 < saving.high:
        likeliest = (
            f", most likely {format_speedup(saving.speedup)}"
            if MIN_CLAIMED_SPEEDUP <= saving.speedup < MAX_PREDICTED_SPEEDUP
            else ""
        )
        return f"at most {format_speedup(saving.high)} as fast{likeliest}"
    if saving.high <= MIN_WIDE_RATIO * saving.low:
        return f"{format_speedup(saving.speedup)} as fast"
    likeliest = f", most likely {format_speedup(saving.speedup)}" if saving.speedup < MAX_PREDICTED_SPEEDUP else ""
    return f"{format_speedup(saving.low)} to {format_speedup(saving.high)} as fast{likeliest}"


def describe_untrained(trace: Trace) -> str:
    """Says that the steps are not training steps; empty if they are."""
    if trace.steps.source != ELEMENTS_SOURCE:
        return ""
    return "; the script trains nothing: a step is one element that it reads from a data set"


MIN_STARTUP_SHARE = 0.5  # if start-up takes more than everything else together, the headline is about it


def is_mostly_startup(trace: Trace) -> bool:
    """Whether the run began to train, and start-up took most of it."""
    return (
        start_parts.has_begun(trace)
        and not trace.fact("profile")
        and start_parts.start_share(trace) >= MIN_STARTUP_SHARE
    )


def startup_headline(trace: Trace, findings: Findings) -> str:
    """Names start-up and its parts if the steps carry no information; empty if a cause or the steps say more."""
    killed = describe_kill_while_compiling(trace)
    if killed:
        return f"{killed}; {start_parts.start_sentence(trace)}"
    others = any(claims_gain(d) and not d.cause.startswith("startup/") for d in findings.diagnoses)
    if others or (trace.has_enough_steps and not trace.is_mostly_unattributed):
        return ""
    failed = trace.fact("launch", "exit_code") not in (None, 0)
    return start_parts.start_sentence(trace) if is_mostly_startup(trace) and not failed else ""


def describe_kill_while_compiling(trace: Trace) -> str:
    """Says that the run was killed while its training function was compiled; empty if it was not."""
    cut_off = start_parts.unfinished_call_times(trace)
    if cut_off is None:
        return ""
    in_fit = any(trace.events_of("loop"))
    began = "fit had started and its function was traced" if in_fit else "a function was called and traced"
    if start_parts.waits_for_xla(trace):
        did = "XLA was compiling and autotuning it" if trace.on_accelerator else "XLA was compiling it"
    else:
        did = "it ran for the first time"
    seconds = format_number((cut_off[1] - cut_off[0]) / 1e3)
    return f"{began}; {did} for {seconds} s until the run was killed"


def next_steps_after_kill(trace: Trace) -> tuple[str, ...]:
    """Next steps after such a kill; empty for other runs."""
    if not describe_kill_while_compiling(trace):
        return ()
    longer = "let it run for longer: the first step had not finished"
    if not start_parts.waits_for_xla(trace):
        return (longer,)
    return (longer, "or switch XLA off: compile(jit_compile=False)")


MIN_CLEAR_RUN_SHARE = 0.2  # of a run without steady steps: what a cause must save to decide the verdict
# Share of a step. A smaller wait for input is the cost of requesting a batch, in steps of a millisecond. If less than
# half a step is overhead, the rest is work.
UNHEALTHY_SHARES = {Category.INPUT: 0.2, Category.DISPATCH: 0.6}


def run_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """The run's verdict, as in the headline."""
    first = first_gaining(findings)
    exhausted = any(class_of(d.cause).exhausts_memory for d in findings.diagnoses)
    if has_failed(trace) and not len(trace.steps):
        return VerdictKind.MEMORY if exhausted else VerdictKind.FAILED
    if exhausted:
        return VerdictKind.MEMORY
    if not trace.has_enough_steps:
        clear = first is not None and first.saving.scope == "run" and first.run_share >= MIN_CLEAR_RUN_SHARE
        if clear and first is not None:
            return _run_kind(first) or VerdictKind.HOST
        return VerdictKind.STARTUP if is_mostly_startup(trace) else VerdictKind.INSUFFICIENT
    if find_memory_failure(findings) is not None:
        return VerdictKind.MEMORY
    if first is not None and (kind := _run_kind(first)) is not None:
        return kind
    if first is None and trace.is_mostly_unattributed and is_mostly_startup(trace):
        return VerdictKind.STARTUP
    return step_verdict(trace, findings)


def _run_kind(diagnosis: Diagnosis) -> VerdictKind | None:
    """The verdict for a diagnosis outside the steady steps; None for others."""
    return class_of(diagnosis.cause).verdict_word


def step_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """What bounds the steady step, by where its time goes."""
    if not trace.has_enough_steps or not trace.step_ms:
        return VerdictKind.INSUFFICIENT
    kind, ms = step_bound.largest_verdict(trace)
    if first_gaining(findings) is None and is_negligible(trace):
        return VerdictKind.INSUFFICIENT
    if kind is VerdictKind.COMPUTE and waits_for_copies(trace):
        return VerdictKind.MEMORY
    ruled_out = {class_of(cause).rules_out for cause in findings.healthy}
    launching = VerdictKind.LAUNCH not in ruled_out and step_bound.mostly_launches(trace, ms)
    return VerdictKind.LAUNCH if kind is VerdictKind.HOST and launching else kind


def waits_for_copies(trace: Trace) -> bool:
    """Whether the device is busy waiting for copies that its own program started."""
    return op_work.copy_wait_share(trace.device) > 0.5


def first_gaining(findings: Findings) -> Diagnosis | None:
    """The first diagnosis whose cure saves time."""
    return next((d for d in findings.diagnoses if claims_gain(d)), None)


def find_memory_failure(findings: Findings) -> Diagnosis | None:
    """Exhausted memory, or a leak. They come before any saving, because the run would end before it."""
    first = next(iter(findings.diagnoses), None)
    return first if first is not None and class_of(first.cause).fills_memory else None


def find_nonfinite_loss(findings: Findings) -> Diagnosis | None:
    """A loss that is not finite. It comes before any speed-up, because all training after it is worthless."""
    return next((d for d in findings.diagnoses if class_of(d.cause).loses_training), None)


def has_failed(trace: Trace) -> bool:
    code = trace.fact("launch", "exit_code")
    return isinstance(code, int) and code != 0


def has_trained(trace: Trace) -> bool:
    """Whether anything trained, even for a step or two, which are too few to analyse."""
    names = {
        trace.names[int(n)].text
        for lane in ("step", "on_batch", "gradient")
        for n in set(trace.lane(lane).name.tolist())
    }
    has_training_trace = any(e.data.get("training") for e in trace.events_of("trace"))
    return bool(len(trace.steps)) or bool(names & {"train", "gradient"}) or has_training_trace


def largest_category(trace: Trace) -> Category:
    known = [c for c in trace.categories if c is not Category.UNATTRIBUTED]
    return max(known, key=trace.mean, default=Category.UNATTRIBUTED)


def unexplained_category(trace: Trace) -> Category | None:
    """The category that takes too much of the step, without a known cause, for a healthy step; else None."""
    if not trace.step_ms:
        return None
    return next((c for c, least in UNHEALTHY_SHARES.items() if trace.share(c) >= least), None)


def is_negligible(trace: Trace) -> bool:
    """Whether no step was looked into, and the unexplained part is negligible for the run.

    A run of a hundred short steps is mostly imports. A saving of less than a twentieth of it is not a finding.
    """
    odd = unexplained_category(trace)
    if odd is None or find_opacity(trace) is None:
        return False
    return trace.mean(odd) * trace.steps.count < (1 - 1 / MIN_SPEEDUP_BY_SCOPE["run"]) * trace.run_ms
