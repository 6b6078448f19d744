"""Very many small copies to the device in each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import LITTLE, Cause
from slowtrain.figures import plain
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Copies, Trace
from slowtrain.whatif import Drop, Remedy

MANY = 16  # a step; the copies of fewer, at some 20 µs each, take a third of a millisecond
# A copy of 4 bytes took 1.6 µs of a V100, and 15 µs of the host's call that starts it. At 12 GB/s (PCIe 3.0 with
# sixteen lanes) 64 KiB take as long on the device as the start: smaller copies are mostly their own price.
SMALL_BYTES = 65536
BYTES_PER_MS = 1e7  # of one large copy: 10 GB/s from ordinary memory at best


class SmallCopies(Cause):
    """Each step copies dozens of small tensors to the device, one by one.

    ## What it means
    A copy has a price whatever its size: a call of the driver on the host, and some microseconds on the device. A
    batch of sixty columns of a table, each a tensor of its own, pays it sixty times; the bytes themselves would cross
    in a fraction of that.

    ## How it is recognised
    Sixteen copies to the device in each step or more, smaller than 64 KiB on average, for which the device
    waits, or the host's thread that launches its work. Copies that hide behind kernels do not count.

    ## What to do
    Stack columns of one type into one tensor (`tf.stack`, `np.column_stack`) before they cross, and
    take them apart in the model; batch labels and weights with them. Let the data set prefetch to the device.

    ## When it is not worth it
    When other work hides the copies, and when few of them matter.
    """

    title = "Many small copies to the device"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        unknown = copied is not None and not copied.bytes and trace.share(Category.FEED) >= LITTLE
        return super().wants(trace) | ({Signal.FEEDS} if unknown else set())

    def examine(self, trace: Trace) -> Evidence | None:
        found = _copies(trace)
        if found is None or found.count < MANY or found.bytes > SMALL_BYTES * found.count:
            return None
        ms = trace.mean(Category.FEED)
        each = found.bytes / found.count
        rate = found.bytes / found.ms / 1e3 if found.ms else 0.0
        return Evidence(
            f"{found.count:,.0f} copies to the device in each step, {each:,.0f} bytes each, at {plain(rate)} MB/s; "
            f"{plain(ms)} of {plain(trace.step_ms)} ms are waited for them",
            {"copies_per_step": found.count, "copy_bytes": each, "feed_ms": ms},
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _copies(trace)
        if found is None:
            return []
        left = evidence.numbers["feed_ms"] / found.count + found.bytes / BYTES_PER_MS
        # Stacking costs the host a copy of its own.
        return [Drop({Category.FEED: max(evidence.numbers["feed_ms"] - left, 0.0)}, 1.0, (0.5, 1.05))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription("edit", Effect.EXACT, "stack inputs of one type into one tensor before they cross")

    fires = (
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @device busy=6 copies={"h2d":[120,61440,0.4,0.4]} idle={"h2d":3.6}
        """,
        """
        step     1111111111
        h2d      hh........
        device   ..kkkkkkkk
        @fact profile=true
        @device busy=8 copies={"h2d":[64,1e6,1,1],"d2h":[1,4,0.01,0.01]} idle={"h2d":1}
        """,
    )
    quiet = (
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @device busy=6 copies={"h2d":[2,38e6,4,4]}
        """,
        """
        step     1111111111
        device   kkkkkkkkkk
        @device busy=10 copies={"h2d":[120,61440,0.4,0]}
        """,
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @device busy=6 copies={"h2d":[20,40e6,4,4]}
        """,
    )


def _copies(trace: Trace) -> Copies | None:
    """To the device; None where the profile gives no bytes (AMD's copies have none)."""
    found = trace.device.copies.get("h2d") if trace.device is not None else None
    return found if found is not None and found.bytes > 0 else None
