"""Python in the training loop itself that makes batches, and Python that waits without reading bytes."""

from __future__ import annotations

from slowtrain.causes.idle_input_wait import find_idle_input_wait, waits_for_bytes
from slowtrain.causes.input.python_input.python_work import MAX_WAITING_SHARE, MIN_LOOP_SHARE, PythonWork
from slowtrain.script.locations.recorded_sources import handmade_input, input_follows_model, only_converts
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed

CALLS_AT_ONCE = 8.0  # assumed, as many as the cure advises: calls that wait at the same time


def find_loop_work(trace: Trace) -> PythonWork | None:
    """The lines of the loop that make its batches, if they compute."""
    hand = handmade_input(trace)
    if hand is None or hand.ms < input_feed.MIN_WAIT_SHARE * trace.step_ms or hand.waiting > MAX_WAITING_SHARE:
        return None
    if not hand.is_interpreted and (input_follows_model(trace) or only_converts(trace, hand)):
        return None
    feeding = hand.feeding
    if hand.is_interpreted:
        kind, left_share = "loop", MIN_LOOP_SHARE
    elif feeding.random and not feeding.data:
        kind, left_share = "drawn", MIN_LOOP_SHARE
    elif not feeding.random and feeding.repeated:
        kind, left_share = "once", MIN_LOOP_SHARE
    else:
        # A thread beside the step hides as much as the rest of the step is long, if a core is idle.
        rest_ms = trace.step_ms - hand.ms
        kind, left_share = "beside", 1 - min(rest_ms * min(input_feed.idle_cores(trace), 1.0) / hand.ms, 1.0)
    return PythonWork(kind, hand.ms, 1.0, hand.where, left_share, in_loop=True)


def find_waiting_work(trace: Trace) -> PythonWork | None:
    """Python that computes nothing and reads too few bytes for a disk to be the reason."""
    found = find_idle_input_wait(trace)
    if found is None or waits_for_bytes(trace, found) is not False:
        return None
    calls = sum(p.calls_per_step for p in input_feed.user_producers(trace))
    left_share = max(found.left, 1 / CALLS_AT_ONCE)
    in_loop = found.by_hand and handmade_input(trace) is not None
    return PythonWork("waits", found.ms, calls, found.where, left_share, in_loop=in_loop)
