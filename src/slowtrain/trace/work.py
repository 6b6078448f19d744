"""What the ops of a deep window work on: matrices, the optimizer's variables, whole tables; and in which layer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from slowtrain.model import Category, Place
from slowtrain.trace import Device, Kernels, Trace, names
from slowtrain.values import dataclass

MOST_ALIKE = 1_000  # tables of one size


@dataclass(frozen=True)
class Op:
    """An op of the window: ``scope/name`` and its type, with ms and executions a step."""

    name: str
    kind: str
    ms: float
    count: float

    @property
    def matmul(self) -> bool:
        return names.MATMUL_OP.match(self.kind) is not None

    @property
    def conv(self) -> bool:
        return names.CONV_OP.match(self.kind) is not None

    @property
    def update(self) -> bool:
        """Whether it belongs to the optimizer: its work follows the variables, not the batch."""
        return names.UPDATE_OP.match(self.kind) is not None or names.OPTIMIZER_SCOPE.search(self.name) is not None

    @property
    def scope(self) -> str:
        """The scope without the parts that functions and gradients put before it."""
        return names.SCOPE_PREFIX.sub("", self.name).rpartition("/")[0]

    @property
    def root(self) -> str:
        """The outermost part of its name: a layer, a model, or the op itself."""
        return names.SCOPE_PREFIX.sub("", self.name).partition("/")[0]

    @property
    def layer(self) -> str:
        """The layer as the user knows it: the scope's second part under a model's, else its first."""
        if self.update:
            return "optimizer"
        parts = names.SCOPE_PREFIX.sub("", self.name).split("/")[:-1]
        return "/".join(parts[:2]) if parts else "(no layer)"


def ops(kernels: Kernels) -> list[Op]:
    """Ops of the window, costliest first."""
    found = []
    for text, (ms, count) in kernels.by_name.items():
        name, _, kind = text.rpartition(":")
        found.append(Op(name or text, kind, ms, count))
    return found


def share(kernels: Kernels, wanted: Callable[[Op], bool]) -> float:
    """The part of all op time that wanted ops take."""
    every = ops(kernels)
    total = sum(o.ms for o in every)
    return sum(o.ms for o in every if wanted(o)) / total if total else 0.0


def by_layer(kernels: Kernels) -> list[tuple[str, float]]:
    """``(layer, share of op time)``, costliest first."""
    found: dict[str, float] = {}
    every = ops(kernels)
    for op in every:
        found[op.layer] = found.get(op.layer, 0.0) + op.ms
    total = sum(found.values()) or 1.0
    return sorted(((layer, ms / total) for layer, ms in found.items()), key=lambda i: -i[1])


def copy_wait_share(device: Device | None) -> float:
    """Of an accelerator's busy time, what its program waits for copies that it started itself."""
    if device is None or not device.kernel_ms:
        return 0.0
    return sum(ms for name, (ms, _) in device.by_kernel.items() if names.XLA_WAIT.search(name)) / device.kernel_ms


def within(op: Op, scopes: Collection[str], *, unnumbered: bool = False) -> bool:
    """Whether an op, or the one that it is a gradient of, stands in a scope, as it is or in a function.

    ``unnumbered``: whatever numbers tell scopes and ops of one name apart.
    """
    own = _unnumbered(op.scope) if unnumbered else op.scope
    wanted = {_unnumbered(s) for s in scopes} if unnumbered else scopes
    return any(own == s or own.startswith(f"{s}/") or own.endswith(f"/{s}") for s in wanted if s)


def _unnumbered(scope: str) -> str:
    return "/".join(names.NUMBERED.sub("", part) for part in scope.split("/"))


def sums(op: Op) -> bool:
    """Whether it adds up gradients of what is used many times: that stands in no layer, and few ops are as long."""
    return "AddN" in (op.kind, op.name) and op.scope in ("", "ArithmeticOptimizer")


def executor_ms(trace: Trace) -> float:
    """Ms of a steady step inside function calls in which no op of weight ran: starting ops, waiting for them."""
    kernels = trace.kernels
    if kernels is None or not kernels.step_ms:
        return 0.0
    inside = max(kernels.function_ms - kernels.busy_ms - kernels.wait_ms, 0.0)
    return min(inside * trace.step_ms / kernels.step_ms, trace.mean(Category.DISPATCH))


LEAST_OP_MS = 0.05  # a shorter op is not split over threads, or gains nothing by it


def split_ms(trace: Trace) -> float:
    """Ms a step in ops long enough to be split over several threads."""
    deep, device = trace.kernels, trace.mean(Category.DEVICE)
    if deep is None or deep.ms <= 0:
        return 0.0
    long = sum(ms for ms, count in deep.by_type.values() if count and ms / count >= LEAST_OP_MS)
    return device * min(long / deep.ms, 1.0)


# What finds its caches cold, behind ops that stream through wide rows, tracing or collecting, takes longer by what
# filling them takes, which is no part of its own length: in clinic/'s pairs of such causes what stays of one to three
# milliseconds came to about half, what stays of nine to fifty became shorter by 0 to 2 ms.
COLD_MS = 1.0
MOST_COLD = 0.5
# Behind the script's own Python (its loops, conversions, reading back, callbacks) a long step is slower throughout, and
# not in its beginning alone. Of what stays, over the part of the step that goes: a median of 0.38 in twenty-one pairs
# of nine such causes, two thirds of them from 0.23 to 0.53.
BETWEEN_COLD = 0.38


def cold_ms(rest_ms: float, share: float = 0.0) -> float:
    """What of ``rest_ms`` in a step goes with cold caches, where something else fills them before it."""
    return max(min(COLD_MS, MOST_COLD * rest_ms), share * rest_ms)


def freed(trace: Trace, part: float, gone_ms: float) -> dict[Category, float]:
    """Ms a step that go with ops that stream through memory for ``part`` of the op time, ``gone_ms`` of them computing.

    Between large ops the executor waits for their threads, which goes with them; what remains finds its caches warm.
    On an accelerator neither is the host's.
    """
    if trace.on_accelerator:
        return {Category.DEVICE: gone_ms}
    return warmed(trace, {Category.DEVICE: gone_ms, Category.DISPATCH: 0.7 * part * executor_ms(trace)}, part)


def warmed(trace: Trace, gone: Mapping[Category, float], part: float) -> dict[Category, float]:
    """Ms a step that go, with what the rest gains by caches that ``part`` of a step's time no longer fills."""
    parts = (Category.DEVICE, Category.DISPATCH, Category.INPUT, Category.PYTHON)
    rest = {c: max(trace.mean(c) - gone.get(c, 0.0), 0.0) for c in parts}
    shorter = part * cold_ms(sum(rest.values())) / max(sum(rest.values()), 1e-9)
    return {c: gone.get(c, 0.0) + shorter * rest[c] for c in parts}


# -- what was traced


def graphs(trace: Trace) -> Iterator[Mapping[str, Any]]:
    """The recorder's summaries of the graphs that training ran, the newest of each function."""
    newest: dict[object, Mapping[str, Any]] = {}
    for event in trace.events_of("trace"):
        if event.data.get("graph") and event.data.get("training"):
            newest[event.data.get("number")] = event.data["graph"]
    yield from newest.values()


def weights(trace: Trace) -> list[Mapping[str, Any]]:
    """The weights of the largest model that was fitted, largest weight first."""
    found = [e.data["weights"] for e in trace.events_of("loop") if e.data.get("weights")]
    return max(found, key=lambda w: sum(int(one["size"]) for one in w), default=[])


def tables(trace: Trace) -> tuple[list[tuple[int, int, int]], int] | None:
    """Tables of which training looks rows up: rows, columns, rows of a batch (0: not told), largest first; all weights.

    Numbers in them, not bytes. Those whose gradients become whole ones, or where there is none, those that are gathered
    from. None where the graphs do not tell, or an older recorder did not look.
    """
    every = list(graphs(trace))
    if not every or any(graph.get("tables") is None for graph in every):
        return None
    found = _tables(trace, "tables") or _tables(trace, "gathered")
    return found, max(int(graph.get("weights") or 0) for graph in every)


def over_tables(trace: Trace) -> dict[str, Place | None]:
    """The user's own ops that work on all rows of such tables, by name, with their lines."""
    made = [one for graph in graphs(trace) for one in graph.get("over") or ()]
    return {str(name): Place(str(file), int(line)) if file else None for name, file, line in made}


def _tables(trace: Trace, which: str) -> list[tuple[int, int, int]]:
    """With the most rows that any trace looks up: the last one may be of a short batch. Each as often as there are."""
    rows: dict[tuple[int, int], int] = {}
    alike: dict[tuple[int, int], int] = {}
    for event in trace.events_of("trace"):
        for table in (event.data.get("graph") or {}).get(which) or () if event.data.get("training") else ():
            size = int(table[0]), int(table[1])
            rows[size] = max(rows.get(size, 0), int(table[2]))
            several = int(table[3]) if len(table) > 3 else 1  # older recorders did not count them
            alike[size] = min(max(alike.get(size, 1), several), MOST_ALIKE)
    largest = sorted(rows, key=lambda size: -size[0] * size[1])
    return [(*size, rows[size]) for size in largest for _ in range(alike[size])]


def samples(trace: Trace) -> int | None:
    """Rows of the data that the longest ``fit`` was given, where its arrays told."""
    found = []
    for event in trace.events_of("loop"):
        shape = (event.data.get("data") or {}).get("shape")
        if event.name == "fit" and shape and shape[0]:
            found.append((event.ms, int(shape[0])))
    return max(found)[1] if found else None


def epoch(trace: Trace, size: float) -> int | None:
    """Samples of the longest epoch that was seen, of steps of ``size``; the only one may have gone on."""
    block = trace.steps.block[trace.steps.block >= 0]
    return int(np.bincount(block).max() * size) if len(block) else None


# Of a core, over all ops of small models at batches of 32 to 400: 10 to 20 GFLOP/s, measured on AVX-512 cores of one
# machine, and 18 to 40 on those of another.
FLOPS_PER_MS = 2e7


def arithmetic_ms(trace: Trace, multiply_adds: float) -> float:
    """What so many products of a forward pass take on this processor, with both gradients."""
    return 6 * multiply_adds / (FLOPS_PER_MS * trace.cores)
