"""Every row of an embedding is updated in each step."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import source_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.whatif import Drop, Remedy

# Ops over the rows of a batch are far cheaper than ops over the table. The most expensive ops that pass over the table
# once cost a twentieth of the scattering sum.
MIN_TABLE_OP_SHARE = 0.05  # of the longest op over the table
# No op reads or writes the table faster than memory allows: 100 GB/s for a few cores, 5 TB/s for a GPU.
MAX_HOST_BYTES_PER_MS, MAX_DEVICE_BYTES_PER_MS = 1e8, 5e9
MAX_TOUCHED_SHARE = 0.5  # of the rows: if a batch uses more of them, a dense update is no waste
# To gather, change and scatter one row of the variable and of the optimizer's variables: 0.2 and 0.6 µs for the rows of
# 64 and 128 bytes of clinic/'s pairs surname_origins and recommend_podcast_ncf.
ROW_UPDATE_MS = 0.4e-3
# The ops of a regularizer and their gradients are in no layer's scope. An op that makes a gradient dense passes over
# the table once. Those of the regularizer that take nearly as long pass over it as well.
REGULARIZER_OPS = frozenset({"Square", "L2Loss", "Abs", "Sign", "Mul", "Sum", "Tile", "BroadcastTo"})
MIN_REGULARIZER_OP_SHARE = 0.3  # of the op that makes the gradient dense
MIN_TABLE_ROWS = 1000
MIN_TABLE_SHARE = 0.3  # of all weights: the optimizer's time goes to other weights if tables are smaller


class WholeTableOps(Struct, frozen=True):
    """Ops over all rows of an embedding take ``ms`` per step, beyond what the rows of a batch need.

    ``shape``: of the table, if it is known. ``touched_rows``: an upper bound of the rows that a batch uses; 0 if it is
    not known. ``op_share``: of all op time. ``optimizer_share``: of the ops over the table.
    """

    ms: float
    op_share: float
    optimizer_share: float
    shape: tuple[int, int] | None
    touched_rows: int
    where: tuple[Place, ...]


class DenseEmbeddingUpdate(Cause[WholeTableOps]):
    """Each step updates every row of a large embedding, though a batch uses few of them."""

    title = "Every row of an embedding is updated in each step"
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    words = ("Embedding", "gather", "embedding_lookup")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        # A profile can show it by the ops that make a gradient dense. To judge the optimizer's own ops needs the model.
        unknown = trace.fact("profile") and trace.compute_once(_whole_table_ops) is None
        return self.needs | ({Signal.MODEL} if unknown else set())

    def find(self, trace: Trace) -> WholeTableOps | None:
        found = trace.compute_once(_whole_table_ops)
        if found is None:
            return None
        places = (self.lines_to_change(trace, found)[:2], found.where, _training_places(trace))
        return replace(found, where=source_places.merge_places(*places))

    def evidence(self, trace: Trace, finding: WholeTableOps) -> Evidence:
        rows = finding.shape[0] if finding.shape else 0
        table = f"the {rows:,} x {finding.shape[1]} table" if finding.shape else "the embedding table"
        used = f", of which a batch uses at most {finding.touched_rows:,} rows" if rows and finding.touched_rows else ""
        return Evidence(
            f"ops over all rows of {table} take {format_number(finding.ms)} ms of each step ({finding.op_share:.0%} of "
            f"op time){used}",
            {
                "table_ms": finding.ms,
                "table_share": finding.op_share,
                "updating_share": finding.optimizer_share,
                "rows": float(rows),
                "touched_rows": float(finding.touched_rows),
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: WholeTableOps) -> Sequence[Remedy]:
        rows_ms = 0.0 if trace.on_accelerator else finding.touched_rows * ROW_UPDATE_MS
        saved_ms = min(finding.ms - rows_ms, 0.98 * finding.ms)
        return [Drop(op_work.ms_of_streaming_ops(trace, finding.op_share, saved_ms), spread=(0.75, 1.05))]


def _whole_table_ops(trace: Trace) -> WholeTableOps | None:
    """The measured part of the finding, with the lines of ops that the graph names."""
    kernels = trace.kernels
    if kernels is None or not kernels.by_name or not _has_large_tables(trace):
        return None
    window_ops = op_work.window_ops(kernels)
    total = sum(o.ms for o in window_ops)
    shape = _table_shape(trace)
    pace = MAX_DEVICE_BYTES_PER_MS if trace.on_accelerator else MAX_HOST_BYTES_PER_MS
    min_ms = 4 * shape[0] * shape[1] / pace if shape else 0.0
    share = _embedding_share(trace)
    if share is None and not any(o.kind == framework_names.DENSIFY_OP for o in window_ops):
        share = _graph_table_share(trace)  # gradients stay sparse, but parts of the optimizer are dense (Adagrad)
    named = op_work.ops_over_tables(trace)
    over = _ops_over_table(window_ops, share, min_ms, named)
    ms = sum(spent for _, spent in over)
    if ms <= 0 or total <= 0:
        return None
    handwritten = any(op.update and not op.scope for op, _ in over)  # its arithmetic is in no optimizer's scope
    own = [op.name for op, _ in over if handwritten and re.sub(framework_names.REWRITTEN_SCOPE, "", op.name) in named]
    optimizer_share = sum(spent for op, spent in over if op.update or op.name in own) / ms
    op_share = min(ms, total) / total
    touched = (_max_touched_rows(trace) or 0) if shape else 0
    touched_share = min(touched / shape[0], 1.0) if shape and shape[0] else 0.0
    if touched_share > MAX_TOUCHED_SHARE or (shape is not None and shape[0] < MIN_TABLE_ROWS):
        return None
    spent_ms = trace.mean(Category.DEVICE) * op_share * (1 - touched_share)
    places = distinct_places(p for p in named.values() if p is not None)[:2]
    return WholeTableOps(spent_ms, op_share, optimizer_share, shape, touched, places)


def _table_shape(trace: Trace) -> tuple[int, int] | None:
    """Rows and columns of the largest embedding, if the model or the graph names one."""
    found = [
        w["shape"]
        for w in op_work.largest_model_weights(trace)
        if w.get("class") == "Embedding" and len(w.get("shape") or ()) == 2
    ]
    if not found and (tables := op_work.embedding_tables(trace)) is not None:
        found = tables[0]
    return (int(found[0][0]), int(found[0][1])) if found else None


def _embedding_share(trace: Trace) -> float | None:
    """The embeddings' share of the model's weights, and so of the optimizer's time. None: the model is not known.

    Of nested layers the model names only the outer one. Then the graph knows which weights are tables.
    """
    weights = op_work.largest_model_weights(trace)
    total = sum(int(w["size"]) for w in weights)
    embedded = sum(int(w["size"]) for w in weights if w.get("class") == "Embedding")
    if total and not embedded and (share := _graph_table_share(trace)):
        return share
    return embedded / total if total else None


def _has_large_tables(trace: Trace) -> bool:
    """Whether tables are a large part of the weights, as far as the model or the graph shows."""
    shares = (_embedding_share(trace), _graph_table_share(trace))
    return next((share for share in shares if share is not None), 1.0) >= MIN_TABLE_SHARE


def _graph_table_share(trace: Trace) -> float | None:
    """The share of the weights that graphs name as tables. None: they name none."""
    tables = op_work.embedding_tables(trace)
    if tables is None or not tables[1]:
        return None
    return sum(rows * columns for rows, columns, _ in tables[0]) / tables[1]


def _ops_over_table(
    ops: list[op_work.WindowOp], embeddings: float | None, min_op_ms: float, named: Container[str]
) -> list[tuple[op_work.WindowOp, float]]:
    """Ops over whole tables, each with the ms that it spends on tables. A scattered update writes its rows only.

    ``named``: ops that the graph names as such.
    """
    written = {o.name for o in ops if re.sub(framework_names.REWRITTEN_SCOPE, "", o.name) in named}
    ops = [o for o in ops if not o.kind.startswith("ResourceScatter") and o.ms >= min_op_ms * o.count]
    dense = [o for o in ops if o.kind == framework_names.DENSIFY_OP]
    if embeddings is not None:
        if not any(o.update for o in ops):
            return []
        least = MIN_TABLE_OP_SHARE * max((o.ms for o in ops if o.update), default=0.0)
        scopes = {o.scope.rpartition("/")[0] or o.scope for o in dense if not o.update and o.ms >= least}
        longest = max((o.ms for o in dense), default=float("inf"))
        regularizer = [
            o for o in ops if not o.scope and o.kind in REGULARIZER_OPS and o.ms >= MIN_REGULARIZER_OP_SHARE * longest
        ]
        more = [o for o in ops if o in dense or o in regularizer or o.name in written]
        mine = [o for o in ops if (o.update or o.scope in scopes or o in more) and o.ms >= least]
        return [(o, o.ms * (embeddings if o.update else 1.0)) for o in mine]
    if not dense:
        return []
    least = MIN_TABLE_OP_SHARE * max(o.ms for o in dense)
    scopes = {o.scope.split("/")[0] for o in dense}
    mine = [o for o in ops if o.ms >= least and not o.matmul and not o.conv]
    kinds = (framework_names.DENSIFY_OP, "AddN")
    return [(o, o.ms) for o in mine if o.update or o.kind in kinds or o.root in scopes or o.name in written]


def _max_touched_rows(trace: Trace) -> int | None:
    """The most rows that one batch can look up: the number of its integers."""
    tables = op_work.embedding_tables(trace)
    if tables is not None and tables[0] and tables[0][0][2]:
        return tables[0][0][2]
    size = int(trace.steps.size.max()) if len(trace.steps) else 0
    for event in trace.events_of("loop"):
        shape = (event.data.get("data") or {}).get("shape")
        if event.name == "fit" and shape and size:
            # Of several inputs with one shape only the first is recorded.
            return size * prod(int(d) for d in shape[1:] if d)
    for event in trace.events_of("trace"):
        if event.data.get("training"):
            found = [
                prod(int(d) for d in leaf["shape"] if d)
                for leaf in (event.data.get("signature") or {}).values()
                if leaf.get("kind") in ("tensor", "array") and str(leaf.get("dtype", "")).startswith("int")
            ]
            if found:
                return sum(found)
    return None


def _training_places(trace: Trace) -> tuple[Place, ...]:
    traced = [Place(str(e.data["file"]), int(e.data["line"])) for e in trace.events_of("trace")
              if e.data.get("training") and not e.data.get("keras") and e.data.get("file")]  # fmt: skip
    compiled = [e.place for e in trace.events_of("compile")]
    fits = [e.place for e in trace.events_of("loop") if e.name == "fit"]
    found = [p for p in (*compiled, *fits, *traced, trace.steps.place) if p is not None]
    return tuple(dict.fromkeys(found))[:3]
