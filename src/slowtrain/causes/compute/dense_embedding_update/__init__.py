"""Every row of an embedding is updated in each step."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import prod

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.source.cures.compute import models, ops
from slowtrain.source.spots.compute import ops as spotted
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.whatif import Drop, Remedy

# An op over the rows of a batch is far cheaper than one over the table; the dearest ops that only pass over
# the table's rows once cost a twentieth of the scattering sum.
TABLE_OP = 0.05
# Nor does an op read or write the table any faster than memory: a few cores reach 100 GB/s at best, a GPU 5 TB/s.
BYTES_PER_MS, ACCELERATOR_BYTES_PER_MS = 1e8, 5e9
TOUCHED = 0.5  # of the rows: where a batch touches more, a dense update is no waste
# To gather, change and scatter one row in turn, for the optimizer's variables and its own: 0.2 and 0.6 µs for the rows
# of 64 and 128 bytes of clinic/'s pairs surname_origins and recommend_podcast_ncf.
ROW_MS = 0.4e-3
# A regularizer's ops and their gradients stand in no layer's scope. Beside the op that makes a gradient whole, and goes
# over the table once, those that take nearly as long go over it, too.
PENALTY = frozenset({"Square", "L2Loss", "Abs", "Sign", "Mul", "Sum", "Tile", "BroadcastTo"})
AS_LONG = 0.3
UPDATING = 0.5  # of the time over the table is the optimizer's
LEAST_ROWS = 1000
LEAST_SHARE = 0.3  # of all weights: smaller tables are not what the optimizer's time goes to


class DenseEmbeddingUpdate(Cause[Evidence]):
    """Each step updates every row of a large embedding, though the batch used few of them."""

    title = "Every row of an embedding is updated in each step"
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    words = ("Embedding", "gather", "embedding_lookup")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        # A profile can show it by the ops that make a gradient dense; an optimizer's own ops need the model to be told.
        unknown = trace.fact("profile") and self.find(trace) is None
        return self.needs | ({Signal.MODEL} if unknown else set())

    def find(self, trace: Trace) -> Evidence | None:
        kernels = trace.kernels
        if kernels is None or not kernels.by_name or not _large(trace):
            return None
        ops = op_work.window_ops(kernels)
        total = sum(o.ms for o in ops)
        table = _table(trace)
        pace = ACCELERATOR_BYTES_PER_MS if trace.on_accelerator else BYTES_PER_MS
        least = 4 * table[0] * table[1] / pace if table else 0.0
        share = _embedding_share(trace)
        if share is None and not any(o.kind == framework_names.DENSIFY_OP for o in ops):
            share = _table_share(trace)  # gradients stay rows, but not all that the optimizer makes of them (Adagrad)
        named = op_work.ops_over_tables(trace)
        over = _over_table(ops, share, least, named)
        ms = sum(spent for _, spent in over)
        if ms <= 0 or total <= 0:
            return None
        by_hand = any(op.update and not op.scope for op, _ in over)  # then its arithmetic has no optimizer's name
        own = [op.name for op, _ in over if by_hand and framework_names.REWRITTEN_SCOPE.sub("", op.name) in named]
        updating = sum(spent for op, spent in over if op.update or op.name in own) / ms
        ms = min(ms, total)
        rows, touched = (table[0], _looked_up(trace)) if table else (0, None)
        part = min(touched / rows, 1.0) if rows and touched else 0.0
        if part > TOUCHED or (table is not None and rows < LEAST_ROWS):
            return None
        spent = trace.mean(Category.DEVICE) * min(ms / total, 1.0) * (1 - part)
        which = f"the {rows:,} x {table[1]} table" if table else "the embedding table"
        used = f", of which a batch uses at most {touched:,} rows" if rows and touched else ""
        return Evidence(
            f"ops over all rows of {which} take {format_number(spent)} ms of each step ({ms / total:.0%} of op "
            f"time){used}",
            {
                "table_ms": spent,
                "table_share": ms / total,
                "updating_share": updating,
                "rows": float(rows),
                "touched_rows": float(touched or 0),
            },
            source_locations.merge_places(
                _whole(trace), distinct_places(p for p in named.values() if p is not None)[:2], _where(trace)
            ),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        whole = evidence.numbers["table_ms"]
        rows = 0.0 if trace.on_accelerator else evidence.numbers["touched_rows"] * ROW_MS
        table = op_work.ms_of_streaming_ops(trace, evidence.numbers["table_share"], min(whole - rows, 0.98 * whole))
        return [Drop(table, spread=(0.75, 1.05))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        first = edit_project(trace, ops.looked_up_first)
        rows = Prescription(
            "edit", Effect.EQUIVALENT, "look up rows first; normalise or regularise only those", edits=first
        )
        # Where the optimizer's own ops take little, what is done to the whole table before it is looked up does.
        looked_up = bool(first) or evidence.numbers["updating_share"] < UPDATING
        if looked_up:
            yield rows
        lazy = edit_project(trace, models.lazy_adam)
        says = "use an optimizer that updates only the rows used: a lazy Adam, SGD without momentum"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=lazy)
        if not looked_up:
            yield rows


def _table(trace: Trace) -> tuple[int, int] | None:
    """Rows and columns of the largest embedding, where the model or the graph told."""
    found = [
        w["shape"]
        for w in op_work.largest_model_weights(trace)
        if w.get("class") == "Embedding" and len(w.get("shape") or ()) == 2
    ]
    if not found and (told := op_work.embedding_tables(trace)) is not None:
        found = told[0]
    return (int(found[0][0]), int(found[0][1])) if found else None


def _embedding_share(trace: Trace) -> float | None:
    """The embeddings' part of the model's weights: an optimizer's time follows them. None: the model did not tell.

    Of a layer of layers the model tells the outer one alone: then the graph says which are tables.
    """
    weights = op_work.largest_model_weights(trace)
    total = sum(int(w["size"]) for w in weights)
    mine = sum(int(w["size"]) for w in weights if w.get("class") == "Embedding")
    if total and not mine and (told := _table_share(trace)):
        return told
    return mine / total if total else None


def _large(trace: Trace) -> bool:
    """Whether tables are, as far as the model or the graph tells, a large part of what is trained."""
    shares = (_embedding_share(trace), _table_share(trace))
    return next((share for share in shares if share is not None), 1.0) >= LEAST_SHARE


def _table_share(trace: Trace) -> float | None:
    """The same of the tables that graphs tell of. None: they do not."""
    told = op_work.embedding_tables(trace)
    return sum(rows * columns for rows, columns, _ in told[0]) / told[1] if told is not None and told[1] else None


def _over_table(
    ops: list[op_work.WindowOp], embeddings: float | None, least_ms: float, named: Container[str]
) -> list[tuple[op_work.WindowOp, float]]:
    """Ops over whole tables, with the ms of each that tables take. A scattered update writes its rows only.

    ``named``: ops that the graph says are.
    """
    written = {o.name for o in ops if framework_names.REWRITTEN_SCOPE.sub("", o.name) in named}
    ops = [o for o in ops if not o.kind.startswith("ResourceScatter") and o.ms >= least_ms * o.count]
    dense = [o for o in ops if o.kind == framework_names.DENSIFY_OP]
    if embeddings is not None:
        if not any(o.update for o in ops):
            return []
        least = TABLE_OP * max((o.ms for o in ops if o.update), default=0.0)
        scopes = {o.scope.rpartition("/")[0] or o.scope for o in dense if not o.update and o.ms >= least}
        longest = max((o.ms for o in dense), default=float("inf"))
        penalty = [o for o in ops if not o.scope and o.kind in PENALTY and o.ms >= AS_LONG * longest]
        more = [o for o in ops if o in dense or o in penalty or o.name in written]
        mine = [o for o in ops if (o.update or o.scope in scopes or o in more) and o.ms >= least]
        return [(o, o.ms * (embeddings if o.update else 1.0)) for o in mine]
    if not dense:
        return []
    least = TABLE_OP * max(o.ms for o in dense)
    scopes = {o.scope.split("/")[0] for o in dense}
    mine = [o for o in ops if o.ms >= least and not o.matmul and not o.conv]
    kinds = (framework_names.DENSIFY_OP, "AddN")
    return [(o, o.ms) for o in mine if o.update or o.kind in kinds or o.root in scopes or o.name in written]


def _looked_up(trace: Trace) -> int | None:
    """Rows that one batch can look up at most: its integers."""
    told = op_work.embedding_tables(trace)
    if told is not None and told[0] and told[0][0][2]:
        return told[0][0][2]
    size = int(trace.steps.size.max()) if len(trace.steps) else 0
    for event in trace.events_of("loop"):
        shape = (event.data.get("data") or {}).get("shape")
        if event.name == "fit" and shape and size:
            # Several inputs of one shape are told by the first only.
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


def _whole(trace: Trace) -> tuple[Place, ...]:
    """Where the text works on all rows of a table, or makes their gradient a whole one."""
    first = source_locations.edit_places(edit_project(trace, ops.looked_up_first))[
        :1
    ]  # the op; then what looks up its result
    kinds = (spotted.whole_tables, spotted.penalised_tables, spotted.made_dense)
    seen = source_locations.project_places(
        trace, lambda source: [one.start[0] for kind in kinds for one in kind(source)]
    )
    return source_locations.merge_places(first, seen)[:2]


def _where(trace: Trace) -> tuple[Place, ...]:
    traced = [Place(str(e.data["file"]), int(e.data["line"])) for e in trace.events_of("trace")
              if e.data.get("training") and not e.data.get("keras") and e.data.get("file")]  # fmt: skip
    compiled = [e.place for e in trace.events_of("compile")]
    fits = [e.place for e in trace.events_of("loop") if e.name == "fit"]
    found = [p for p in (*compiled, *fits, *traced, trace.steps.place) if p is not None]
    return tuple(dict.fromkeys(found))[:3]
