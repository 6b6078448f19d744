"""Copies to the device in each step that are very small, or come from pageable memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import LITTLE, Cause, link
from slowtrain.columns.device_copies import DirectionCopies
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.script.navigation import call_index
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.transfer import todevice
from slowtrain.source.spots.transfer import columns
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input.device_handover import handover_ms_by_category
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

MANY = 16  # a step; the copies of fewer, at some 20 µs each, take a third of a millisecond
# A copy of 4 bytes took 1.6 µs of a V100, and 15 µs of the host's call that starts it. At 12 GB/s (PCIe 3.0 with
# sixteen lanes) 64 KiB take as long on the device as the start: smaller copies are mostly their own price.
SMALL_BYTES = 65536
BYTES_PER_MS = 1e7  # of one large copy: 10 GB/s from ordinary memory at best
MOSTLY = 0.5  # of the bytes come from pageable memory
AHEAD = 'end the data set in .apply(tf.data.experimental.prefetch_to_device("/GPU:0")): it copies beside the step'
ARRAYS = 'make a tf.data.Dataset of the arrays, and end it in prefetch_to_device("/GPU:0"): it copies beside the step'
IN_FIT = (
    "end the data set in prefetch_to_device: it copies beside the step. Such a data set does not tell its length: "
    "repeat() it and give fit steps_per_epoch, or Keras counts a step too many in each epoch"
)
PINNED = (
    "have a map stand directly in front of .batch(n): TensorFlow makes one operation of both (MapAndBatch), whose "
    "batches lie in locked memory; those of batch alone, of cache and of arrays do not"
)
SLOWER = 0.8  # of a pageable copy's time is a locked one's: rates of locked ones differ by a seventh among themselves
LEAST_LOCKED_BYTES = 1e6  # a step: smaller copies do not show what the link can do


@dataclass(frozen=True)
class Slow:
    """Copies from pageable memory, a step: what they take that no kernel hides, and from locked memory would."""

    copies: DirectionCopies
    share: float  # of the bytes
    ms: float
    left_ms: float
    bytes_per_ms: float


class SmallCopies(Cause):
    """Each step copies dozens of small tensors to the device, one by one, or large ones from pageable memory.

    ## What it means
    A copy has a price whatever its size: a call of the driver on the host, and some microseconds on the device. A
    batch of sixty columns of a table, each a tensor of its own, pays it sixty times; the bytes themselves would cross
    in a fraction of that. And a copy from ordinary memory, which may be paged out, is two: the driver
    copies it into locked memory piece by piece, and the call waits for that.

    ## How it is recognised
    Sixteen copies to the device in each step or more, smaller than 64 KiB on average, for which the device
    waits, or the host's thread that launches its work; or copies that the profile calls pageable, slower
    than those from locked memory in the same profile, or than the link gives by its generation and lanes. Copies that
    hide behind kernels do not count. On sixteen lanes of PCIe 5.0 copies from locked memory reached 48 to 55 GB/s,
    pageable ones of 39 and 77 MB 6.3 to 6.5, of 2 MB 14.5 to 22. Up to 1 MB the driver stages a copy, and it is as
    quick.

    ## What to do
    Stack columns of one type into one tensor (`tf.stack`, `np.column_stack`) before they cross, and
    take them apart in the model; batch labels and weights with them. Let the data set prefetch to the device
    (`tf.data.experimental.prefetch_to_device` as its last stage): its copies run while the step before computes, each
    as long as before. Such a data set does not tell its length: Keras' `fit` needs `steps_per_epoch` for it, or it
    counts one step too many in each epoch. A `map` directly in front of `batch` makes batches in locked memory.

    ## When it is not worth it
    When other work hides the copies, and when few of them matter.
    """

    title = "Many small copies to the device, or copies from pageable memory"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "fit")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        unknown = copied is not None and _untold(trace, copied)
        return super().wants(trace) | ({Signal.FEEDS} if unknown else set())

    def examine(self, trace: Trace) -> Evidence | None:
        found = _copies(trace)
        if found is None:
            return None
        if not _small(found):
            return _evidence(trace, slow) if (slow := _pageable(trace, found)) is not None else None
        ms = sum(handover_ms_by_category(trace).values())
        each = found.bytes / found.count
        rate = found.bytes / found.ms / 1e3 if found.ms else 0.0
        return Evidence(
            f"{found.count:,.0f} copies to the device in each step, {each:,.0f} bytes each, at "
            f"{format_number(rate)} MB/s; "
            f"{format_number(ms)} of {format_number(trace.step_ms)} ms are waited for them",
            {"copies_per_step": found.count, "copy_bytes": each, "feed_ms": ms},
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _copies(trace)
        if found is None:
            return []
        if not _small(found):
            slow = _pageable(trace, found)
            if slow is None:
                return []
            # Beside the step a copy takes as long as before: a step gets no shorter than that. At best it comes from
            # locked memory as well, and all of it hides.
            saved = min(slow.ms, trace.step_ms - slow.ms)
            return [Drop({Category.FEED: saved}, 0.0, (0.4, slow.ms / saved))] if saved > 0 else []
        handed = handover_ms_by_category(trace)
        total = max(sum(handed.values()), 1e-9)
        kept = min(1 / found.count + found.bytes / BYTES_PER_MS / total, 1.0)
        # Stacking costs the host a copy of its own.
        return [Drop({category: (1 - kept) * ms for category, ms in handed.items()}, 1.0, (0.5, 1.05))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if "pageable_share" not in evidence.numbers:
            yield Prescription("edit", Effect.EXACT, "stack inputs of one type into one tensor before they cross")
        elif trace.on_jax:
            yield Prescription("edit", Effect.EXACT, "jax.device_put the next batch while the step before it runs")
        else:
            yield _ahead(trace, evidence)
            if not _map_before_batch(trace):
                yield Prescription("advice", Effect.EXACT, PINNED)

    def spot(self, source: Source) -> Iterable[Spot]:
        """Tables of which every column is a tensor of its own."""
        for call, count in columns.many(source):
            says = (
                "put the columns of one type together in one array (np.column_stack), and take them apart in the model"
            )
            cure = Prescription("advice", Effect.EQUIVALENT, says)
            says = f"a batch of this data is {count} small tensors, and each step hands over every one by itself"
            yield Spot(*call_index.operation_range(call), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        names = [f"sensor_{i}" for i in range(40)]
        table = {name: np.random.rand(4096, 1).astype("float32") for name in names}
        y = np.random.rand(4096, 1)
        columns = {name: keras.Input((1,), name=name) for name in names}
        joined = keras.layers.Concatenate()(list(columns.values()))
        model = keras.Model(columns, keras.layers.Dense(1)(joined))
        model.compile("sgd", "mse")
        history = model.fit(table, y, batch_size=256)
        """,
            """
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        names = [f"sensor_{i}" for i in range(40)]
        table = {name: np.random.rand(4096, 1).astype("float32") for name in names}
        y = np.random.rand(4096, 1)
        rows = np.concatenate([table[name] for name in names], axis=1)
        model = keras.Sequential([keras.Input((40,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(rows, y, batch_size=256)
        """,
        ),
    )

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
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @fact profile=true
        @device busy=10 copies={"h2d":[2,12e6,4,4,12e6,4,4]}
        """,
        """
        step     1111111111
        h2d      hhhhh.....
        device   .....kkkkk
        @fact profile=true jax=true
        @device busy=10 copies={"h2d":[3,52e6,5,5,30e6,4,4]}
        """,
        # As fast as locked memory over PCIe 3.0, on a link of PCIe 5.0.
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @fact devices=[{"kind":"GPU"}]
        @sample gpu_pcie_generation_0=5 gpu_pcie_width_0=16 gpu_util_share_0=0.6
        @device busy=10 copies={"h2d":[2,47e6,4,4,47e6,4,4]}
        """,
    )
    quiet = (
        # Small enough for the driver to stage: as fast as from locked memory.
        """
        step     11
        h2d      h.
        device   .k
        @fact devices=[{"kind":"GPU"}]
        @sample gpu_pcie_generation_0=5 gpu_pcie_width_0=16 gpu_util_share_0=0.6
        @device busy=1 copies={"h2d":[1,1e6,0.022,0.022,1e6,0.022,0.022]}
        """,
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
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @fact profile=true
        @device busy=10 copies={"h2d":[2,47e6,4,4,47e6,4,4]}
        """,
        """
        step     1111111111
        h2d      hhhh......
        device   ....kkkkkk
        @fact profile=true
        @device busy=10 copies={"h2d":[2,12e6,4,4,1e5,0.1,0.1]}
        """,
    )


def _small(found: DirectionCopies) -> bool:
    return found.count >= MANY and found.bytes <= SMALL_BYTES * found.count


def _untold(trace: Trace, copied: DirectionCopies) -> bool:
    """Whether what is waited for may be pageable copies, or, where no bytes are told, small ones."""
    if not copied.bytes:
        return trace.share(Category.FEED) >= LITTLE
    return copied.pageable is None and not _small(copied) and copied.exposed_ms >= LITTLE * trace.step_ms


def _pageable(trace: Trace, found: DirectionCopies) -> Slow | None:
    """None where the profile does not tell, or locked memory would not be quicker."""
    slow = found.pageable
    if slow is None or slow.ms <= 0 or slow.bytes < MOSTLY * found.bytes:
        return None
    locked, took = found.bytes - slow.bytes, found.ms - slow.ms
    rate = locked / took if locked >= LEAST_LOCKED_BYTES and took > 0 else link.locked_bytes_per_ms(trace)
    ms = min(slow.exposed_ms, trace.mean(Category.FEED))
    left = ms * slow.bytes / slow.ms / rate
    return Slow(found, slow.bytes / found.bytes, ms, left, slow.bytes / slow.ms) if left < SLOWER * ms else None


def _ahead(trace: Trace, evidence: Evidence) -> Prescription:
    """The data set's copies beside the step, with the edit where the script shows that nothing else reads it."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit"]
    if any((e.data.get("data") or {}).get("type") == "numpy.ndarray" for e in fits):
        return Prescription("advice", Effect.EXACT, ARRAYS)
    found = measured.first(trace, evidence.where, todevice.prefetched_to_device)
    if not found and trace.steps.source == "fit":
        return Prescription("advice", Effect.EXACT, IN_FIT)
    return Prescription("edit", Effect.EXACT, AHEAD, edits=found)


def _map_before_batch(trace: Trace) -> bool:
    """Whether the pipeline makes batches in locked memory, whatever then keeps them elsewhere."""
    return trace.pipeline is not None and any(node.family == "MapAndBatch" for node in trace.pipeline.nodes)


def _where(trace: Trace) -> tuple[Place, ...]:
    """Where the data set ends, and where training takes its batches."""
    written = trace.pipeline.written if trace.pipeline is not None else ()
    ends = [one.place for one in written if one.place is not None]
    return distinct_places((*ends[-1:], trace.steps.place))


def _evidence(trace: Trace, slow: Slow) -> Evidence:
    found = slow.copies
    return Evidence(
        f"{format_number(found.count)} copies to the device in each step, {slow.share:.0%} of their "
        f"{format_number(found.bytes / 1e6)} "
        f"MB from pageable memory, at {format_number(slow.bytes_per_ms / 1e6)} GB/s; {format_number(slow.ms)} of "
        f"{format_number(trace.step_ms)} ms hide behind no kernel",
        {"copies_per_step": found.count, "copy_bytes": found.bytes / found.count, "feed_ms": slow.ms,
         "pageable_share": slow.share},
        () if trace.fact("profile") else _where(trace),
    )  # fmt: skip


def _copies(trace: Trace) -> DirectionCopies | None:
    """To the device; None where the profile gives no bytes (AMD's copies have none)."""
    found = trace.device.copies.get("h2d") if trace.device is not None else None
    return found if found is not None and found.bytes > 0 else None
