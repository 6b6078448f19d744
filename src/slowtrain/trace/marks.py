"""A device's own marks of steps, checked against the calls of the training function.

A mark reaches from the first to the last work that the profiler gave to the step. The callback that ends the profile
often starts a tiny op of its own, after its Python, and that op counts as work of the last step: the mark then reaches
over all of the callback. Of 107 published profiles of one project 89 had such a mark, 2 to 11 times too long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slowtrain.trace import Bools, Floats
from slowtrain.trace.activities import Activities
from slowtrain.trace.ordered import halfway
from slowtrain.trace.timeline import Device, Thread, calls
from slowtrain.values import dataclass

# Of the device's work in a mark: more of it behind the calls is no op of a callback. Logical ops and copies of a number
# take some microseconds; the least step that a profile is made of takes a millisecond.
TINY = 0.05
# Of what the calls say: a mark that is longer by less changes no share of the step by a tenth, and stays as it is.
LONGER = 0.1
# Times the usual mark: the last one of several that is as long as the others has what each step has behind its call.
AS_USUAL = 1.25


@dataclass(frozen=True)
class Checked:
    """The steps; ``behind``: begin and end of what was cut from the last mark, None where it stays as it is."""

    start_ms: Floats
    end_ms: Floats
    behind: tuple[float, float] | None = None


def check(
    marked: tuple[Floats, Floats], device: Device, threads: Sequence[Thread], called: Sequence[Floats]
) -> Checked:
    """``called``: begin and end of each call of the training function on the host of ``device``.

    Only the last mark can be wrong so: what lies between a call and the next one belongs to each turn of the loop.
    """
    order = np.argsort(marked[0], kind="stable")
    start, end = marked[0][order], marked[1][order]
    whole = Checked(start, end)
    at = int(end.argmax())
    before = called[0] < end[at]
    if not before.any() or at != len(start) - 1:
        return whole
    usual = float(halfway(end[:at] - start[:at])) if at else 0.0
    if end[at] - start[at] <= AS_USUAL * usual:
        return whole
    last = float(called[1][before].max())
    # Where the host was ahead, its call was over when the device began.
    first = float(called[0][before & (called[1] > start[at])].min(initial=np.inf))
    near = (device.activities.end_ms > start[at]) & (device.activities.start_ms < end[at])
    work = device.activities.where(near)
    own = _begun_by(work, threads, last)
    if not own.any() or float(work.ms[~own].sum()) > TINY * float(work.ms.sum()):
        return whole
    begun = max(min(first, float(start[at])), float(end[:at].max(initial=-np.inf)))
    done = max(last, float(work.end_ms[own].max()))
    if end[at] - done <= LONGER * (done - begun):
        return whole
    start, cut = start.copy(), end.copy()
    start[at], cut[at] = begun, done
    return Checked(start, cut, (done, float(end[at])))


def _begun_by(work: Activities, threads: Sequence[Thread], moment_ms: float) -> Bools:
    """Which work the host had started by then; of work whose call is not told, which work had begun."""
    caller, begun, _ = calls(threads, work.correlation)
    return np.asarray(np.where(caller >= 0, begun, work.start_ms) <= moment_ms)
