"""Data sets from which training takes its batches, with all their operations, as the interpreter finds them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from slowtrain.script.interpreter.domain import shape_rules
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Stage
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import project_events
from slowtrain.script.navigation import name_bindings, node_lookup, project_files, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text.source_file import Source, cache_recent

RECORD_DATASETS = (
    ".TFRecordDataset",
    ".TextLineDataset",
    ".FixedLengthRecordDataset",
)  # read records in sequence
BATCHING_STAGES = frozenset({"batch", "padded_batch", "ragged_batch", "rebatch"})
ELEMENT_WISE_MAKERS = ("from_tensor_slices", "TextLineDataset", "TFRecordDataset")
SAME_ELEMENT_STAGES = frozenset(
    {"map", "shuffle", "prefetch", "cache", "with_options", "repeat", "enumerate", "snapshot"}
)
END_COMPARISONS = (ast.Eq, ast.GtE, ast.Gt)
MAX_NUMBER_BYTES = 8  # bytes of a number of unknown type


class ConsumedDataset(Struct, frozen=True, eq=False):
    """The operations of a data set that training consumes.

    ``passes``: how often training iterates it, at least. ``begun``: the number of iterators made for that. ``most``:
    the elements taken from each iterator, if not all.
    """

    stages: tuple[Stage, ...]
    passes: int
    begun: int = 1
    most: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.stages)


@cache_recent(4)
def datasets_of(source: Source) -> tuple[ConsumedDataset, ...]:
    """The data sets of every ``fit`` and every loop of steps, in any file of the project."""
    return (
        tuple(_find_datasets(source))
        if dataset_chains.may_make_dataset(source) or project_files.may_import_project_files(source)
        else ()
    )


def stage_call(source: Source, stage: Stage) -> ast.Call | None:
    """The call that makes a stage, if it is in this file."""
    return stage.given.node if stage.source is source and isinstance(stage.given.node, ast.Call) else None


def _find_datasets(source: Source) -> Iterator[ConsumedDataset]:
    for event in project_events(source):
        if event.name == ".fit":
            dataset = event.given.get("x", 0)
            epochs = event.given.get("epochs").known
            cut = event.given.get("steps_per_epoch").kind not in ("unknown", "none")
            passes = begun = epochs if isinstance(epochs, int) and not cut else 1
            most = None
        elif event.name == "taken" and event.on is not None and not event.graph:
            dataset, passes = event.on, _pass_count(source, event)
            begun, most = _iterators_and_limit(event.source, event, passes) if passes else (0, None)
        else:
            continue
        if dataset.kind == "dataset" and dataset.stages and passes:
            yield ConsumedDataset(dataset.stages, passes, begun, most)


def _pass_count(source: Source, event: Event) -> int:
    """How often a loop of steps iterates the data set; 0 if it takes no step."""
    node: ast.AST | None = event.node
    stepping = step_loops.handwritten_loop_nodes(source)
    if isinstance(node, ast.Call) and node_lookup.called_name(node) == "next":
        around = [one for one in event.loops if isinstance(one.node, (ast.For, ast.While))]
        return int(bool(around) and around[-1].node in stepping)
    loop = node_lookup.enclosing_node(event.source, event.node, ast.For)
    if loop not in stepping:
        return 0
    outer = [one for one in event.loops if one.node is not loop and isinstance(one.node, (ast.For, ast.While))]
    return prod(2 if one.turns is None else one.turns for one in outer)


def _iterators_and_limit(source: Source, event: Event, passes: int) -> tuple[int, int | None]:
    """The number of iterators that a loop of steps makes, and the elements taken from each if not all."""
    node = event.node
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) != "next":
        loop = node_lookup.enclosing_node(source, node, ast.For)
        return passes, _turn_limit(source, loop, loop.iter) if isinstance(loop, ast.For) else None
    name = node.args[0] if node.args else None
    iterator = name_bindings.single_assignment(source, name) if isinstance(name, ast.Name) else None
    every = [one for one in event.loops if isinstance(one.node, (ast.For, ast.While))]
    around = scope_names.enclosing_loops(source, node)
    if not isinstance(iterator, ast.Call) or node_lookup.called_name(iterator) != "iter" or not around:
        return 1, None
    near = (
        node_lookup.enclosing_function(source, iterator) is node_lookup.enclosing_function(source, node)
        and every[-1].node is around[0]
    )
    if not near or scope_names.enclosing_loops(source, iterator) != around[1:]:
        return 1, None  # the iterator outlives the loop that takes from it
    return prod(2 if one.turns is None else one.turns for one in every[:-1]), every[-1].turns


def _turn_limit(source: Source, loop: ast.For, over: ast.expr) -> int | None:
    """The maximum iterations by ``zip(range(n), ds)``, ``islice(ds, n)`` or ``if i == n: break``; else None."""
    name = node_lookup.called_name(over) if isinstance(over, ast.Call) else ""
    several = over.args if isinstance(over, ast.Call) else []
    if name == "zip":
        ranges = [a for a in several if isinstance(a, ast.Call) and node_lookup.called_name(a) == "range"]
        counts = [a.args[0] for a in ranges if len(a.args) == 1]
        return next((n for one in counts if (n := queries.int_at(source, one)) is not None), None)
    if name == "islice" and len(several) == 2:
        return queries.int_at(source, several[1])
    if name != "enumerate" or not several:
        return None
    is_unpacked = over is loop.iter and isinstance(loop.target, ast.Tuple)
    counter = scope_names.dotted_name(loop.target.elts[0]) if is_unpacked else ""  # type: ignore[attr-defined]
    for one in loop.body if counter else ():
        test = one.test if isinstance(one, ast.If) and isinstance(one.body[-1], ast.Break) else None
        known = isinstance(test, ast.Compare) and isinstance(test.ops[0], END_COMPARISONS)
        if isinstance(test, ast.Compare) and known and scope_names.dotted_name(test.left) == counter:
            return queries.int_at(source, test.comparators[0])
    return _turn_limit(source, loop, several[0])


def element_leaves(value: Value) -> Iterator[Value]:
    """The tensors of an element."""
    if value.kind in ("tuple", "list", "dict"):
        for one in value.items.values():
            yield from element_leaves(one)
    else:
        yield value


def element_numbers(value: Value, *, batched: bool) -> int | None:
    """The count of numbers in an element, or in a row of a batch; None if unknown."""
    known = [one.shape for one in element_leaves(value)]
    if any(one is None for one in known):
        return None
    rows = [one[1:] if batched else one for one in known if one is not None]
    if any(n is None for one in rows for n in one):
        return None
    return sum(prod(n for n in one if n is not None) for one in rows)


def element_bytes(value: Value, *, batched: bool) -> int | None:
    """The bytes of an element, or of a row of a batch; None if unknown."""
    several = [(taken, shape_rules.DTYPE_BYTES.get(one.dtype, MAX_NUMBER_BYTES)) for one in element_leaves(value)
               for taken in [element_numbers(one, batched=batched)]]  # fmt: skip
    known = [taken * wide for taken, wide in several if taken is not None]
    return sum(known) if len(known) == len(several) else None


def row_count(stages: tuple[Stage, ...], most: int | None = None) -> int | None:
    """The number of rows that pass the last of these stages per pass, batches counted by rows; None if unknown.

    ``most``: the number of its elements that are taken.
    """
    maker, size = stages[0], 1
    data = maker.given.get("tensors" if "tensors" in maker.given.keywords else "stop", 0)
    there: int | None = data.known if maker.name == "range" and isinstance(data.known, int) else None
    if maker.name == "from_tensor_slices":
        counts = [_array_rows(one) for one in element_leaves(data)] if data.kind != "list" else [_array_rows(data)]
        there = min((n for n in counts if n is not None), default=None)
    for one in stages[1:]:
        first = one.given.get("batch_size" if one.name in BATCHING_STAGES else "count", 0).known
        whole = first if isinstance(first, int) else 0
        if one.name in BATCHING_STAGES:
            size = whole if size == 1 else 0
        elif one.name == "unbatch":
            size = 1
        elif one.name == "take" and whole > 0 and size:
            there = min(whole * size, there) if there is not None else whole * size
        elif one.name not in SAME_ELEMENT_STAGES:
            there = None
    if most is not None and size:
        return min(most * size, there) if there is not None else most * size
    return there


def _array_rows(value: Value) -> int | None:
    if value.kind in ("array", "tensor") and value.shape:
        return value.shape[0]
    if value.kind == "list":
        return value.shape[0] if value.shape else len(value.items) if None not in value.items else None
    return None


def gives_batches(stages: tuple[Stage, ...]) -> bool | None:
    """Whether the stages give batches; None if unknown."""
    found: bool | None = False if stages[0].name in ELEMENT_WISE_MAKERS else None
    for one in stages[1:]:
        if one.name in BATCHING_STAGES:
            found = True
        elif one.name == "unbatch" or reads_by_record(one):
            found = False
        elif one.name not in SAME_ELEMENT_STAGES | {"take", "skip", "shard", "filter"}:
            found = None
    return found


def reads_by_record(stage: Stage) -> bool:
    """Whether a stage reads files record by record."""
    return stage.name in ("interleave", "flat_map") and any(e.name.endswith(RECORD_DATASETS) for e in stage.does)
