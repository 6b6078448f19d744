"""What the ops of a deep window work on: matrices, optimizer variables, whole tables; and in which layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.columns.device import Device, Kernels
from slowtrain.model import Category, Place
from slowtrain.profile import framework_names
from slowtrain.trace import Trace

MAX_EQUAL_TABLES = 1_000  # tables of equal size


class WindowOp(Struct, frozen=True):
    """An op of the window: ``scope/name`` and its type, with ms and executions per step."""

    name: str
    kind: str
    ms: float
    count: float

    @property
    def matmul(self) -> bool:
        return re.match(framework_names.MATMUL_OP, self.kind) is not None

    @property
    def conv(self) -> bool:
        return re.match(framework_names.CONV_OP, self.kind) is not None

    @property
    def update(self) -> bool:
        """Whether it belongs to the optimizer, so that its work depends on the variables and not on the batch."""
        return (
            re.match(framework_names.UPDATE_OP, self.kind) is not None
            or re.search(framework_names.OPTIMIZER_SCOPE, self.name) is not None
        )

    @property
    def scope(self) -> str:
        """The scope without the prefixes that functions and gradients add."""
        return re.sub(framework_names.SCOPE_PREFIX, "", self.name).rpartition("/")[0]

    @property
    def root(self) -> str:
        """The first part of the name: a layer, a model, or the op itself."""
        return re.sub(framework_names.SCOPE_PREFIX, "", self.name).partition("/")[0]

    @property
    def layer(self) -> str:
        """The layer as the user knows it: the scope's second part under a model's, else its first part."""
        if self.update:
            return "optimizer"
        parts = re.sub(framework_names.SCOPE_PREFIX, "", self.name).split("/")[:-1]
        return "/".join(parts[:2]) if parts else "(no layer)"


def window_ops(kernels: Kernels) -> list[WindowOp]:
    """Return the window's ops, costliest first."""
    found = []
    for text, (ms, count) in kernels.by_name.items():
        name, _, kind = text.rpartition(":")
        found.append(WindowOp(name or text, kind, ms, count))
    return found


def op_time_share(kernels: Kernels, wanted: Callable[[WindowOp], bool]) -> float:
    """Return the part of all op time that the wanted ops take."""
    every = window_ops(kernels)
    total = sum(o.ms for o in every)
    return sum(o.ms for o in every if wanted(o)) / total if total else 0.0


def time_share_by_layer(kernels: Kernels) -> list[tuple[str, float]]:
    """Return ``(layer, share of op time)``, costliest first."""
    found: dict[str, float] = {}
    every = window_ops(kernels)
    for op in every:
        found[op.layer] = found.get(op.layer, 0.0) + op.ms
    total = sum(found.values()) or 1.0
    return sorted(((layer, ms / total) for layer, ms in found.items()), key=lambda i: -i[1])


def copy_wait_share(device: Device | None) -> float:
    """Return the part of an accelerator's busy time that its program waits for copies it started itself."""
    if device is None or not device.kernel_ms:
        return 0.0
    return (
        sum(ms for name, (ms, _) in device.by_kernel.items() if re.search(framework_names.XLA_WAIT, name))
        / device.kernel_ms
    )


def is_in_scopes(op: WindowOp, scopes: Collection[str], *, unnumbered: bool = False) -> bool:
    """Return whether an op, or the op that it is a gradient of, is in one of the scopes, also inside a function.

    ``unnumbered``: ignore the numbers that distinguish scopes and ops of the same name.
    """
    own = _without_numbers(op.scope) if unnumbered else op.scope
    wanted = {_without_numbers(s) for s in scopes} if unnumbered else scopes
    return any(own == s or own.startswith(f"{s}/") or own.endswith(f"/{s}") for s in wanted if s)


def _without_numbers(scope: str) -> str:
    return "/".join(re.sub(framework_names.NAME_NUMBER, "", part) for part in scope.split("/"))


def adds_up_gradients(op: WindowOp) -> bool:
    """Return whether it adds up gradients of something used several times.

    It is in no layer, and few ops take as long.
    """
    return "AddN" in (op.kind, op.name) and op.scope in ("", "ArithmeticOptimizer")


def executor_overhead_ms(trace: Trace) -> float:
    """Return ms of a steady step in function calls without a running op of weight: starting ops, waiting for them."""
    kernels = trace.kernels
    if kernels is None or not kernels.step_ms:
        return 0.0
    inside = max(kernels.function_ms - kernels.busy_ms - kernels.wait_ms, 0.0)
    return min(inside * trace.step_ms / kernels.step_ms, trace.mean(Category.DISPATCH))


MIN_SPLIT_OP_MS = 0.05  # shorter ops are not split over threads, or gain nothing by it


def splittable_op_ms(trace: Trace) -> float:
    """Return ms per step in ops long enough to be split over several threads."""
    deep, device = trace.kernels, trace.mean(Category.DEVICE)
    if deep is None or deep.ms <= 0:
        return 0.0
    long = sum(ms for ms, count in deep.by_type.values() if count and ms / count >= MIN_SPLIT_OP_MS)
    return device * min(long / deep.ms, 1.0)


# After ops that stream through wide rows, tracing or garbage collection, caches are cold. The extra time is that of
# filling them, and does not depend on the length of the rest. In clinic/'s pairs of such causes a rest of one to three
# milliseconds fell to about half, and a rest of nine to fifty became shorter by 0 to 2 ms.
MAX_COLD_CACHE_MS = 1.0
MAX_COLD_CACHE_SHARE = 0.5
# After the script's own Python (loops, conversions, reading back, callbacks) a long step is slower throughout, and
# not only at its beginning. Relative to the rest and the removed part of the step: a median of 0.38 in twenty-one pairs
# of nine such causes, two thirds of them from 0.23 to 0.53.
PYTHON_COLD_SHARE = 0.38


def cold_cache_ms(rest_ms: float, share: float = 0.0) -> float:
    """Return the part of ``rest_ms`` in a step that is due to cold caches, if something else fills them before."""
    return max(min(MAX_COLD_CACHE_MS, MAX_COLD_CACHE_SHARE * rest_ms), share * rest_ms)


def ms_of_streaming_ops(trace: Trace, part: float, gone_ms: float) -> dict[Category, float]:
    """Return ms per step that disappear with ops that stream through memory.

    They take ``part`` of the op time and compute for ``gone_ms``. Between large ops the executor waits for their
    threads, which disappears too, and the rest finds its caches warm. On an accelerator neither is the host's.
    """
    if trace.on_accelerator:
        return {Category.DEVICE: gone_ms}
    return ms_with_warm_caches(
        trace, {Category.DEVICE: gone_ms, Category.DISPATCH: 0.7 * part * executor_overhead_ms(trace)}, part
    )


def ms_with_warm_caches(trace: Trace, gone: Mapping[Category, float], part: float) -> dict[Category, float]:
    """Return ms per step that disappear, including the gain of the rest from caches that ``part`` no longer fills."""
    parts = (Category.DEVICE, Category.DISPATCH, Category.INPUT, Category.PYTHON)
    rest = {c: max(trace.mean(c) - gone.get(c, 0.0), 0.0) for c in parts}
    shorter = part * cold_cache_ms(sum(rest.values())) / max(sum(rest.values()), 1e-9)
    return {c: gone.get(c, 0.0) + shorter * rest[c] for c in parts}


# -- what was traced


def training_graphs(trace: Trace) -> Iterator[Mapping[str, Any]]:
    """Yield the recorder's summaries of the training graphs, the newest of each function."""
    newest: dict[object, Mapping[str, Any]] = {}
    for event in trace.events_of("trace"):
        if event.data.get("graph") and event.data.get("training"):
            newest[event.data.get("number")] = event.data["graph"]
    yield from newest.values()


def largest_model_weights(trace: Trace) -> list[Mapping[str, Any]]:
    """Return the weights of the largest model that was fitted, largest first."""
    found = [e.data["weights"] for e in trace.events_of("loop") if e.data.get("weights")]
    return max(found, key=lambda w: sum(int(one["size"]) for one in w), default=[])


def embedding_tables(trace: Trace) -> tuple[list[tuple[int, int, int]], int] | None:
    """Return tables from which training looks up rows, and the number of all weights.

    A table is (rows, columns, rows per batch; 0 if unknown), largest first; sizes are elements, not bytes. Tables
    with dense gradients come first; if there are none, tables that are gathered from. None if the graphs do not
    contain it, or an older recorder did not look.
    """
    every = list(training_graphs(trace))
    if not every or any(graph.get("tables") is None for graph in every):
        return None
    found = _tables_of_kind(trace, "tables") or _tables_of_kind(trace, "gathered")
    return found, max(int(graph.get("weights") or 0) for graph in every)


def ops_over_tables(trace: Trace) -> dict[str, Place | None]:
    """Return the user's own ops that work on all rows of such tables, by name, with their lines."""
    rows = [one for graph in training_graphs(trace) for one in graph.get("over") or ()]
    return {str(name): Place(str(file), int(line)) if file else None for name, file, line in rows}


def _tables_of_kind(trace: Trace, which: str) -> list[tuple[int, int, int]]:
    """Return tables with the most rows that any trace looks up, because the last trace may have a short batch.

    Each occurs as often as it exists.
    """
    rows: dict[tuple[int, int], int] = {}
    alike: dict[tuple[int, int], int] = {}
    for event in trace.events_of("trace"):
        for table in (event.data.get("graph") or {}).get(which) or () if event.data.get("training") else ():
            size = int(table[0]), int(table[1])
            rows[size] = max(rows.get(size, 0), int(table[2]))
            several = int(table[3]) if len(table) > 3 else 1  # older recorders did not count them
            alike[size] = min(max(alike.get(size, 1), several), MAX_EQUAL_TABLES)
    largest = sorted(rows, key=lambda size: -size[0] * size[1])
    return [(*size, rows[size]) for size in largest for _ in range(alike[size])]


def fit_rows(trace: Trace) -> int | None:
    """Return the rows of the data of the longest ``fit``, if its arrays gave them."""
    found = []
    for event in trace.events_of("loop"):
        shape = (event.data.get("data") or {}).get("shape")
        if event.name == "fit" and shape and shape[0]:
            found.append((event.ms, int(shape[0])))
    return max(found)[1] if found else None


def longest_epoch_rows(trace: Trace, size: float) -> int | None:
    """Return the samples of the longest recorded epoch, with ``size`` per step.

    A single epoch may have been cut off.
    """
    block = trace.steps.block[trace.steps.block >= 0]
    return int(np.bincount(block).max() * size) if len(block) else None


# Per core, over all ops of small models at batches of 32 to 400: 10 to 20 GFLOP/s, measured on AVX-512 cores of one
# machine, and 18 to 40 on those of another.
FLOPS_PER_MS = 2e7


def product_ms(trace: Trace, multiply_adds: float) -> float:
    """Return the time of this number of multiply-adds of a forward pass on this processor, with both gradients."""
    return 6 * multiply_adds / (FLOPS_PER_MS * trace.cores)
