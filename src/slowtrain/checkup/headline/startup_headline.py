"""Headlines of runs that are mostly start-up, or that were killed before their first step ended."""

from __future__ import annotations

from slowtrain.checkup.headline import gain_words
from slowtrain.diagnose import Findings
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import start_parts

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
    others = any(gain_words.claims_gain(d) and not d.cause.startswith("startup/") for d in findings.diagnoses)
    if others or (trace.enough and not trace.is_mostly_unattributed):
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
