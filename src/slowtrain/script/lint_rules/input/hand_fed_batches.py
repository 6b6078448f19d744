"""Lint rules about batches that a training loop reads, draws or converts between its steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from slowtrain.model import Edit
from slowtrain.script.fixes.input import background_batches, hoisted_conversions
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FILE_READERS, Source

MIN_DRAWN_NUMBERS = 16_384  # numbers. NumPy draws a normal number in 10 to 20 ns, thus 0.2 ms in total.
# Numbers (1 MiB). Gathering and copying them takes about 0.5 ms, while the device is idle.
MIN_COPIED_NUMBERS = 2**18
THREAD_NAMES = frozenset({"ThreadPoolExecutor", "ProcessPoolExecutor", "Thread", "Process", "Pool", "submit", "Queue"})
OPENING_FUNCTIONS = FILE_READERS - {"load", "get", "File", "read"}


@dataclass(frozen=True)
class HandFedBatch:
    node: ast.expr
    says: str
    edits: tuple[Edit, ...] = ()


def step_conversions(source: Source) -> Iterator[HandFedBatch]:
    """Find conversions in every step, of constant data and of numbers that NumPy has just drawn."""
    for steps in step_loops.step_loops_of(source):
        for call in _conversion_calls(source, steps):
            made = tuple(hoisted_conversions.convert_before_loop(source, call.lineno))
            name = node_lookup.called_name(call)
            if made and scope_names.enclosing_loops(source, steps.loop) and _is_long_conversion(source, call):
                yield HandFedBatch(call, f"{name} converts the same rows anew in every epoch, between two steps", made)
            elif _converts_drawn_numbers(source, steps, call):
                yield HandFedBatch(
                    call, f"NumPy draws this batch and {name} copies it between two steps, while nothing computes"
                )


def _is_long_conversion(source: Source, call: ast.Call) -> bool:
    """Whether it converts a list or many rows. Few rows are converted while the previous step computes."""
    given = interpreter.value_at(source, call.args[0]) if call.args else UNKNOWN
    known = given.shape is not None and None not in given.shape
    return given.kind == "list" or (known and prod(n or 0 for n in given.shape or ()) >= MIN_COPIED_NUMBERS)


def _conversion_calls(source: Source, steps: step_loops.StepLoop) -> Iterator[ast.Call]:
    for one in step_loops.statements_per_turn(steps.loop):
        for call in whole_pipelines.calls_in([one]):
            known = scope_names.resolved_name(source, call.func) in hoisted_conversions.CONVERSION_FUNCTIONS
            if (
                known
                and node_lookup.called_name(call) != "cast"
                and scope_names.enclosing_loops(source, call)[:1] == [steps.loop]
            ):
                yield call


def _converts_drawn_numbers(source: Source, steps: step_loops.StepLoop, call: ast.Call) -> bool:
    """Whether it converts many numbers that NumPy drew in the same iteration."""
    value = call.args[0] if call.args else None
    if isinstance(value, ast.Name):
        made = [s for s in step_loops.statements_per_turn(steps.loop) if value.id in scope_names.bound_names(s)]
        value = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
    if (
        isinstance(value, ast.Call)
        and node_lookup.called_name(value) == "astype"
        and isinstance(value.func, ast.Attribute)
    ):
        value = value.func.value
    if not isinstance(value, ast.Call) or not name_bindings.qualified_name(source, value.func).startswith(
        "numpy.random."
    ):
        return False
    if node_lookup.called_name(value) not in element_sizes.FLOAT_DRAWS:
        return False
    shape = queries.shape_at(source, value) or ()
    known = [n for n in shape if n is not None]
    return len(known) == len(shape) > 0 and prod(known) >= MIN_DRAWN_NUMBERS


def blocking_reads(source: Source) -> Iterator[HandFedBatch]:
    """Find training loops that wait for a file or server in each iteration, without prefetching."""
    for steps in step_loops.step_loops_of(source):
        loop = steps.loop
        over = loop.iter if isinstance(loop, ast.For) else None
        if isinstance(over, ast.Call) and node_lookup.called_name(over) in ("enumerate", "tqdm") and over.args:
            over = over.args[0]
        made = node_lookup.function_called_by_name(source, over) if over is not None else None
        if made is not None and over is not None and any(isinstance(n, ast.Yield) for n in syntax_tree.walk(made)):
            inner = whole_pipelines.calls_in(whole_pipelines.reached_statements(source, made))
            names = {node_lookup.called_name(c) for c in inner}
            opened = [c for c in inner if _opens_file(source, c)]
            if opened and not names & THREAD_NAMES and _opens_per_batch(source, opened, made):
                yield _read_with_edit(source, over, f"{made.name}() reads the next batch only after the step")
            continue
        rows = next(iter(_hdf5_row_reads(source, steps)), None)
        if rows is not None:
            yield _read_with_edit(source, rows, "this batch is read from an HDF5 file only after the step before it")


def _read_with_edit(source: Source, node: ast.expr, says: str) -> HandFedBatch:
    return HandFedBatch(
        node,
        f"{says}: nothing reads ahead while the step runs",
        tuple(background_batches.prefetch_in_thread(source, node.lineno)),
    )


def _opens_file(source: Source, call: ast.Call) -> bool:
    whole = name_bindings.qualified_name(source, call.func)
    if node_lookup.called_name(call) == "open":
        return isinstance(call.func, ast.Name) or whole in ("os.open", "PIL.Image.open", "gzip.open", "io.open")
    return node_lookup.called_name(call) in OPENING_FUNCTIONS or whole in ("numpy.load", "requests.get")


def _opens_per_batch(source: Source, opened: list[ast.Call], made: ast.FunctionDef) -> bool:
    """Whether a file is opened for each batch, and not only once."""
    inside = [c for c in opened if scope_names.enclosing_loops(source, c)]
    called = [
        c
        for c in whole_pipelines.calls_in(whole_pipelines.live_statements(made))
        if scope_names.enclosing_loops(source, c)
    ]
    reached = {node_lookup.function_named(source, node_lookup.called_name(c), c) for c in called}
    return bool(inside) or any(node_lookup.enclosing_function(source, c) in reached for c in opened)


def _hdf5_row_reads(source: Source, steps: step_loops.StepLoop) -> Iterator[ast.expr]:
    """Yield rows of an HDF5 data set that the loop reads for a step."""
    for one in step_loops.statements_per_turn(steps.loop):
        for node in syntax_tree.walk(one):
            if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node.value, ast.Name) and _is_hdf5_dataset(source, node.value):
                yield node


def _is_hdf5_dataset(source: Source, name: ast.Name) -> bool:
    """Whether ``x`` comes from ``x = file["x"]`` of an ``h5py.File`` in the same scope."""
    value = name_bindings.single_assignment(source, name)
    if not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name):
        return False
    if not isinstance(value.slice, ast.Constant) or not isinstance(value.slice.value, str):
        return False
    opened = dataset_chains.last_assignment(source, value.value, value)
    return isinstance(opened, ast.Call) and name_bindings.qualified_name(source, opened.func) == "h5py.File"
