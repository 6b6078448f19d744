"""Headlines of runs that are mostly start-up, or that were killed before their first step ended."""

from __future__ import annotations

from slowtrain.checkup import reasons
from slowtrain.diagnose import Findings
from slowtrain.figures import plain
from slowtrain.trace import Trace, startparts

MOST_OF_RUN = 0.5  # if start-up takes more than everything else together, the headline is about it


def mostly_start(trace: Trace) -> bool:
    """Whether the run began to train, and start-up took most of it."""
    return startparts.began(trace) and not trace.fact("profile") and startparts.share(trace) >= MOST_OF_RUN


def headline(trace: Trace, findings: Findings) -> str:
    """Names start-up and its parts if the steps carry no information; empty if a cause or the steps say more."""
    killed = killed_compiling(trace)
    if killed:
        return f"{killed}; {startparts.says(trace)}"
    others = any(reasons.claims(d) and not d.cause.startswith("startup/") for d in findings.diagnoses)
    if others or (trace.enough and not trace.untold):
        return ""
    failed = trace.fact("launch", "exit_code") not in (None, 0)
    return startparts.says(trace) if mostly_start(trace) and not failed else ""


def killed_compiling(trace: Trace) -> str:
    """Says that the run was killed while its training function was compiled; empty if it was not."""
    cut_off = startparts.unfinished_ms(trace)
    if cut_off is None:
        return ""
    in_fit = any(trace.events_of("loop"))
    began = "a fit had begun and its function was traced" if in_fit else "a function was called and traced"
    if startparts.waits_for_xla(trace):
        did = "XLA was compiling and autotuning it" if trace.on_accelerator else "XLA was compiling it"
    else:
        did = "its first execution was going on"
    seconds = plain((cut_off[1] - cut_off[0]) / 1e3)
    return f"{began}; {did} for {seconds} s when the run was killed"


def next_steps(trace: Trace) -> tuple[str, ...]:
    """Next steps after such a kill; empty for other runs."""
    if not killed_compiling(trace):
        return ()
    longer = "let it run for longer: the first step was not done yet"
    if not startparts.waits_for_xla(trace):
        return (longer,)
    return (longer, "or leave XLA out: compile(jit_compile=False)")
