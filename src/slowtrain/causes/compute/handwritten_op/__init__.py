"""An op is written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slowtrain.causes import Cause
from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.input_pipeline import PYTHON_OPS
from slowtrain.columns.kernels import Line
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import handmade_input_places, recorded_source
from slowtrain.source.cures import measured
from slowtrain.source.cures.compute import mapped_functions, ops
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import kernel_launches, op_work
from slowtrain.trace.signals.host.host_work import changes_variables, lane_places
from slowtrain.whatif import Drop, Remedy, Skip

REPEATS = 60  # ops alike from one line; fewer start in less time than is worth a word
ITS_OWN = 0.5  # of a line's ops it makes itself; less: it calls layers, each an op of its own right
RECURRENT = 0.3  # of the ops alike hang one after the other: no single op does these at once
TURNS = 500  # of a Python loop within one step
ONE_OP = "replace the loop by the one op (conv2d, einsum, batched matmul, gather)"
# Of the ops' computing when one op does it: clinic/'s store_sales and texture_filters, on two machines: 0.15 to 0.33;
# with the sums of their gradients, of ski_rentals, bud_break and compressor_station 0.05 to 0.14.
LEFT = 0.15
ADDING = re.compile(r"add(?:_\d+)?$")


class HandwrittenOp(Cause[Evidence]):
    """Something that TensorFlow has one op for is written as a loop, or by way of another."""

    title = "An op is written by hand"
    needs = frozenset({Signal.STEPS})
    recorded = frozenset({Signal.TRACES, Signal.LINES})  # the graph with its source lines
    words = ("one_hot", "add_weight", "map_fn", "GradientTape", ".fit")

    def find(self, trace: Trace) -> Evidence | None:
        ways = (_one_hot(trace), _repeated(trace), _turns(trace), _called_back(trace), _python_loop(trace))
        return max(filter(None, ways), key=_worth, default=None)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        now = evidence.numbers
        if now.get("exact"):
            return [
                Drop(op_work.ms_of_streaming_ops(trace, now["op_share"], now[str(Category.DEVICE)]), spread=(0.75, 1.1))
            ]
        gone = {Category(k): v for k, v in now.items() if k in set(Category)}
        if "ops" in now and trace.step_ms and not trace.on_accelerator:
            gone = op_work.ms_with_warm_caches(trace, gone, sum(gone.values()) / trace.step_ms)
        compiled = [Skip(ms, kernel_launches.COMPILE_SPREAD)] if (ms := now.get("compile_ms")) else []
        return [Drop(gone, spread=(0.5, 1.3)), *compiled]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """The run's, where compiling the loop's ops costs it more than all steps."""
        steps_ms = _worth(evidence) * len(trace.steps)
        return "run" if evidence.numbers.get("compile_ms", 0.0) > steps_ms else self.scope

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if evidence.numbers.get("exact"):
            says = "look rows up with tf.gather or layers.Embedding instead of multiplying"
            found = measured.first(trace, evidence.where, ops.looked_up)
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=found)
        else:
            found = measured.first(trace, evidence.where, mapped_functions.at_once)
            rows = "take all turns of the loop at once with tf.vectorized_map"
            says = rows if found else _in_words(trace, evidence)
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=found)


def _in_words(trace: Trace, evidence: Evidence) -> str:
    """What is left to a person."""
    texts = ((recorded_source(trace, place.file), place.line) for place in evidence.where)
    told = (mapped_functions.outputs(text, line) for text, line in texts if text is not None)
    return next(filter(None, told), ONE_OP)


def _worth(evidence: Evidence) -> float:
    return sum(v for k, v in evidence.numbers.items() if k in set(Category))


def _one_hot(trace: Trace) -> Evidence | None:
    """Products with one-hot rows, forward and back: a look-up does none of them."""
    if trace.kernels is None:
        return None
    rows = [row for graph in op_work.training_graphs(trace) for row in graph.get("one_hot") or ()]
    names = {op_work.WindowOp(str(name), "", 0.0, 0.0).scope for row in rows for name in row[3]}
    hot = {str(row[0]) for row in rows}
    wanted = {name for row in rows for name in row[3]}

    def taken(op: op_work.WindowOp) -> bool:
        plain = op.name.removeprefix("StatefulPartitionedCall/")
        base = plain.removeprefix("gradient_tape/")
        # The products' gradients, and the sums over the batch that come with them, are named after the products.
        return plain in wanted or base in hot or any(base == name or base.startswith(f"{name}/") for name in wanted)

    part = op_work.op_time_share(trace.kernels, taken) if names else 0.0
    if part <= 0:
        return None
    place = next((Place(str(row[1]), int(row[2])) for row in rows if row[1]), None)
    ms = trace.mean(Category.DEVICE) * part
    return Evidence(
        f"one-hot rows are multiplied by a matrix, which takes {format_number(ms)} ms of each step "
        f"({part:.0%} of op time); a look-up does the same",
        {str(Category.DEVICE): 0.98 * ms, "op_share": part, "exact": 1.0},
        (place,) if place else (),
    )


def _repeated(trace: Trace) -> Evidence | None:
    """A loop unrolled into the graph: ops alike, side by side, from one line."""
    best: Mapping[str, Any] = max(
        op_work.training_graphs(trace), key=lambda g: sum((g.get("repeated") or {}).values()), default={}
    )
    alike = best.get("repeated") or {}
    count = sum(alike.values())
    lines = [row for row in best.get("lines") or () if len(row) == 4 and row[3] >= max(ITS_OWN * row[2], 1)]
    # A sum that each turn adds to is a chain as well, of which one op does all: what is added hangs on no turn before.
    adds = sum(n for key, n in alike.items() if ADDING.match(key.rpartition("/")[2]))
    if count < REPEATS or not lines or best.get("chain", 0) - adds > RECURRENT * (count - adds):
        return None
    own = [row for row in lines if not changes_variables(trace, Place(str(row[0]), int(row[1])))]
    if sum(row[3] for row in own) < ITS_OWN * sum(row[3] for row in lines):
        return None
    forward = sum(row[2] for row in best["lines"])
    part = sum(row[2] for row in lines) / forward
    device = _alike_ms(trace, alike, part)
    start = kernel_launches.op_start_ms(trace)
    # The one op has the arithmetic left, and what each small op takes beside it is gone.
    products = any(m.match(key.rpartition("/")[2]) for key in alike for m in framework_names.PRODUCT_PATTERNS)
    known = float(best.get("multiply_adds") or 0) if products and not trace.on_accelerator else 0.0
    least = op_work.product_ms(trace, known)
    if trace.kernels is not None:  # at most what all products take now
        least = min(
            least, trace.mean(Category.DEVICE) * op_work.op_time_share(trace.kernels, lambda o: o.matmul or o.conv)
        )
    left = max(LEFT, min(least / device, 1.0)) if device else LEFT
    most = ", ".join(f"{n:,} {key.rpartition('/')[2]}" for key, n in sorted(alike.items(), key=lambda i: -i[1])[:3])
    rows = [Place(str(row[0]), int(row[1])) for row in lines[:3]]
    where = source_locations.merge_places(
        (head for row in rows for head in source_locations.file_places(trace, row, source_locations.loop_line)), rows
    )
    key = Category.DEVICE if trace.kernels is not None else Category.UNATTRIBUTED
    compile_ms = kernel_launches.xla_compile_ms(trace, part)
    said = f", and XLA about {format_number(compile_ms / 1e3)} s to compile" if compile_ms else ""
    return Evidence(
        f"a loop makes {count:,} ops alike in the graph ({most}); "
        f"they take {format_number(device + start * part)} ms of each step{said}",
        # What starting ops costs goes with their number, and what compiling them costs.
        {str(key): (1 - left) * device, str(Category.DISPATCH): 0.95 * part * start, "ops": float(count),
         "compile_ms": compile_ms},
        where,
    )  # fmt: skip


def _alike_ms(trace: Trace, alike: Mapping[str, int], part: float) -> float:
    """What ops alike, with their gradients, compute in each step."""
    if trace.kernels is None:
        return part * trace.mean(Category.UNATTRIBUTED)
    scopes = {key.rpartition("/")[0] for key in alike}
    bare = {key for key in alike if "/" not in key}  # outside of all scopes stand the other ops of the step, too
    same = kernel_launches.are_steps_xla_compiled(trace)  # it gives ops alike one name

    def taken(op: op_work.WindowOp) -> bool:
        within = (
            op_work.is_in_scopes(op, scopes, unnumbered=same) or framework_names.NAME_NUMBER.sub("", op.root) in bare
        )
        return (within or op_work.adds_up_gradients(op)) and not op.update

    return trace.mean(Category.DEVICE) * op_work.op_time_share(trace.kernels, taken)


def _turns(trace: Trace) -> Evidence | None:
    """A loop in the graph of which each turn stands for itself, as of ``tf.map_fn``: its ops start anew in each."""
    sizes = trace.steps.size[trace.steps.steady]
    batch = float(median_value(sizes)) if len(sizes) else 0.0
    loops = [(graph, row) for graph in op_work.training_graphs(trace) for row in graph.get("loops") or ()]
    if trace.kernels is None or not loops:
        return None
    graph, row = max(loops, key=lambda one: (one[1][4] or batch) * one[1][3])
    ops = (row[4] or batch) * row[3]
    if ops < REPEATS:
        return None
    # Its gradient has about as many ops as the loop itself, and the rest of the graph is counted with its own, which do
    # not all run: of those that ran, the loop's own are known.
    part = 2 * ops / (2 * ops + graph.get("ops", 0))
    part = max(part, min(ops / trace.kernels.count, 1.0)) if trace.kernels.count else part
    start = part * kernel_launches.op_start_ms(trace)
    name = str(row[0])
    device = trace.mean(Category.DEVICE) * op_work.op_time_share(trace.kernels, lambda o: f"{name}/" in o.name)
    return Evidence(
        f"a loop in the graph starts {row[3]:,} ops in each of {ops / row[3]:,.0f} turns, and no turn needs "
        f"what another made; starting them takes {format_number(start)} ms of each step, computing "
        f"{format_number(device)} ms",
        {str(Category.DEVICE): (1 - LEFT) * device, str(Category.DISPATCH): 0.95 * start, "ops": ops},
        (Place(str(row[1]), int(row[2])),) if row[1] else (),
    )


def _called_back(trace: Trace) -> Evidence | None:
    """Python within the training graph."""
    if not any(kind in PYTHON_OPS for graph in op_work.training_graphs(trace) for kind in graph.get("types", {})):
        return None
    input_places = {(w.detail.get("python") or {}).get("line") for p in trace.pipelines for w in p.written if w.python}
    mine = [p for p in trace.producers if p.place is None or p.place.line not in input_places]
    ms = sum(p.ms_per_step for p in mine)
    if not mine or ms <= 0:
        return None
    where = [line.place for line in mine[0].lines[:1]] + [p.place for p in mine if p.place]
    computing = next(
        (c for c in (Category.DEVICE, Category.DISPATCH, Category.UNATTRIBUTED) if trace.mean(c) >= ms), Category.DEVICE
    )
    return Evidence(
        f"the step calls back into Python ({mine[0].qualname}), {format_number(ms)} ms of each step",
        {str(computing): 0.9 * ms},
        tuple(dict.fromkeys(where))[:3],
    )


def _python_loop(trace: Trace) -> Evidence | None:
    """A loop of hundreds of turns in each eager step that neither reads back nor makes input (else: python-in-step)."""
    if not trace.eager:
        return None
    own = trace.mean(Category.PYTHON) + trace.mean(Category.DISPATCH)
    touched = {p for lane in ("readback", "feed", "next") for p in lane_places(trace, lane)}
    several = [
        line for line in trace.loop_lines if line.visits >= TURNS and line.place not in handmade_input_places(trace)
    ]
    hot = [line for line in several if not _near(line, touched)]
    part = sum(line.share for line in hot)
    if not hot or part < 0.3:
        return None
    ms = own * part
    return Evidence(
        f"a Python loop takes {max(line.visits for line in hot):,.0f} turns and {format_number(ms)} ms in each step",
        {str(Category.DISPATCH): 0.9 * ms},
        tuple(line.place for line in hot[:3]),
    )


def _near(line: Line, places: set[Place]) -> bool:
    return any(p.file == line.place.file and abs(p.line - line.place.line) <= 2 for p in places)
