"""The notes on the measurement, and the next steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from slowtrain.checkup import verdicts
from slowtrain.checkup.headline import describe_peer_wait
from slowtrain.checkup.verdicts import (
    find_nonfinite_loss,
    first_gaining,
    has_failed,
    has_trained,
    is_negligible,
    unexplained_category,
)
from slowtrain.diagnose import Findings
from slowtrain.model import Category, Diagnosis, Signal
from slowtrain.number_text import format_count, format_number, format_speedup
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed
from slowtrain.trace.signals.host.stalls import crowding_cores

MIN_MISSING_SAMPLES = (
    5  # without figures of any card, at the end of the run: fewer may be one slow answer of the driver
)


def lost_card_notes(trace: Trace) -> Iterator[str]:
    """Says that samples of the machine continue without the card's figures, and since when."""
    columns = [column for key, column in trace.samples.items() if key.startswith("gpu_")]
    if not columns:
        return
    readable = np.flatnonzero(np.isfinite(np.array(columns)).any(axis=0))
    at = trace.samples["time_ms"]
    if len(readable) and len(at) - 1 - readable[-1] >= MIN_MISSING_SAMPLES:
        yield (
            f"the GPU's driver returned no figures from {format_number(at[readable[-1]] / 1e3)} s of the run on: the "
            "card's figures cover the time before that; `slowtrain doctor` and the kernel's log show whether the "
            "card was lost"
        )


MIN_EXTRA_GAIN_SHARE = 0.05  # of a step: what a cure saves beyond the category that it is named after
MIN_OTHER_PROCESSORS = 0.2  # processors used by other processes
MIN_WINDOW_INFLATION = 1.15  # times the usual step: a longer profiled step is reported
INTERRUPTED_EXIT_CODE = 128 + 2  # Ctrl-C: the user ended the run


def checkup_notes(trace: Trace, findings: Findings) -> Iterator[str]:
    """Notes on the measurement itself."""
    yield from trace.fact("notes", default=())
    yield from _recording_end_note(trace)
    if (taken := crowding_cores(trace)) >= MIN_OTHER_PROCESSORS:
        yield (
            f"other processes used {format_count(taken, 'processor', 2)} and left almost none idle: times and "
            "savings may differ on an idle machine"
        )
    code = trace.fact("launch", "exit_code")
    if code is None and trace.fact("launch", default=None):
        yield "the run did not end normally: the report covers what was recorded before that"
    elif has_failed(trace):
        how = f"was ended by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        yield f"the script {how}; the report covers what was recorded before that"
    if len(trace.steps) and trace.kernels is None and not trace.fact("unread"):
        yield "no deep window was recorded: the time inside a function call cannot be attributed"
    yield from lost_card_notes(trace)
    yield from _window_notes(trace)
    if len(trace.steps) and verdicts.find_opacity(trace) is verdicts.NO_GPU_TIMELINE:
        yield (
            f"the time inside a function call cannot be attributed{verdicts.NO_GPU_TIMELINE.why}: "
            f"{verdicts.NO_GPU_TIMELINE.advice}"
        )
    if len(trace.steps) and Signal.INPUT not in trace.signals and trace.fact("told_steps", default=True):
        yield "the wait for input inside the training function was not measured"
    if input_feed.uses_worker_processes(trace):
        yield "worker processes make the batches, and they are not recorded: the cost of their Python is not known"
    if trace.fact("faults", default=None):
        yield f"the recorder had {len(trace.fact('faults'))} internal error(s) and continued without the affected parts"
    several = [d for d in findings.diagnoses if d.saving.speedup > 1.0]
    yield from _extra_gain_note(trace, several[0] if several else None)
    if findings.together is not None and len(several) > 1:
        whole = findings.together
        gain = f"{format_speedup(whole.speedup)} ({format_speedup(whole.low)} to {format_speedup(whole.high)})"
        yield f"all cures together make the {whole.scope} {gain} as fast; their savings overlap"
    if len(trace.steps) and trace.fact("told_steps", default=True):
        yield f"steps are counted by: {trace.steps.source}"


def _window_notes(trace: Trace) -> Iterator[str]:
    """How much longer profiled steps are. On an accelerator the division of a step comes from them."""
    profiled = trace.device.profiled if trace.device is not None else None
    usual = trace.steps.quantile_ms(0.5)
    if profiled is not None and profiled.step_ms > MIN_WINDOW_INFLATION * usual:
        longer = (
            f"{format_number(profiled.step_ms / usual)} times the usual step ({format_number(profiled.step_ms)} ms)"
        )
        yield (
            f"the {profiled.steps} profiled steps take {longer}: the step shown here has their device time in "
            "milliseconds, and its host time is divided in their proportions"
        )


def _extra_gain_note(trace: Trace, first: Diagnosis | None) -> Iterator[str]:
    """Why the first cure saves more than a step waits for its input, which is what the bars show."""
    wait = trace.mean(Category.INPUT)
    if first is None or not first.cause.startswith("input/") or first.saving.scope != "step" or trace.fact("profile"):
        return
    more = first.saving.ms - wait
    if more >= MIN_EXTRA_GAIN_SHARE * trace.step_ms:
        of = "cores and Python's lock" if trace.producers else "cores"
        spared = f"{format_number(more, 2)} ms more than the wait for input"
        yield f"curing {first.cause} saves {spared}: making batches competes with the rest of the step for {of}"


def _recording_end_note(trace: Trace) -> Iterator[str]:
    """Says that the recording covers only the beginning of the run."""
    why = trace.fact("ended")
    if why:
        start, end = (trace.fact("launch", key) for key in ("start_ns", "end_ns"))
        of = f" of {format_number((end - start) / 1e9)} s" if isinstance(start, int) and isinstance(end, int) else ""
        seen = f"the report covers its first {format_number(trace.run_ms / 1e3)} s{of}"
        yield f"the recording ended before the script did ({why}): {seen}"


def next_steps_for(trace: Trace, findings: Findings, folder: Path) -> Iterator[str]:
    first = find_nonfinite_loss(findings) or first_gaining(findings)
    if killed := verdicts.next_steps_after_kill(trace):
        yield from killed
    elif (first := first or verdicts.first_without_claim(findings)) is not None:
        for prescription in first.prescriptions[:1]:
            yield prescription.says
        yield f"slowtrain explain {first.cause}"
        if trace.fact("profile"):
            yield (
                "run slowtrain run SCRIPT on the script's machine: it names source lines and measures what a "
                "profile does not contain"
            )
            return
        if any(p.edits and p.can_be_tried for p in first.prescriptions):
            yield "run slowtrain fix with the same script and arguments: it applies this edit and measures the gain"
        yield f"after the change, run slowtrain run again, then slowtrain compare {folder} NEW"
    elif has_failed(trace) and trace.fact("launch", "exit_code") != INTERRUPTED_EXIT_CODE:
        yield _failure_next_step(trace)
    elif describe_peer_wait(trace):
        yield "read the recordings of the other ranks: the rank that waits least sets the length of a step"
    elif not has_trained(trace):
        yield (
            "no training was found (a step of fit or train_on_batch, a call of a tf.function or jax.jit function "
            "that computes a gradient, a gradient computed eagerly): run Slowtrain on the script that trains; "
            "processes that the script starts are not recorded"
        )
    elif trace.fact("profile"):
        yield "run slowtrain run SCRIPT on the script's machine: it measures what a profile does not contain"
    elif not trace.has_enough_steps or is_negligible(trace):
        yield "run it again and train for longer"
    elif not findings.diagnoses:
        yield _next_step_without_cause(trace)


def _failure_next_step(trace: Trace) -> str:
    """The next step after a script that failed."""
    code = trace.fact("launch", "exit_code")
    if code > 128:
        by = "a batch system, the kernel because memory ran out, a crash in native code"
        return f"find out what sent signal {code - 128} ({by}), then run it again"
    if any(trace.events_of("failure")):
        return "fix the script's own error (its traceback is above), then run it again"
    return f"read what the script printed about its exit code {code}, then run it again"


def _next_step_without_cause(trace: Trace) -> str:
    """The next step if no cause was found."""
    unseen = verdicts.find_opacity(trace) if trace.is_mostly_unattributed else verdicts.opacity_hiding_cause(trace)
    if unseen is not None:
        return unseen.advice
    category = unexplained_category(trace)
    if category is Category.DISPATCH:
        return "look for loops in the graph and for many small ops: the HTML report lists the ops of the step"
    if category is not None:
        return "look at the input pipeline: the HTML report shows the cost of each node"
    return "nothing to fix: more speed needs a cheaper model or a faster machine"
