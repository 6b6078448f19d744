"""Where the cause input/per-element-map shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Stage
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MIN_EPOCH_ROWS = 1000  # rows per epoch. At about 10 µs per call, fewer take some ten ms.
QUIET_CALLS = frozenset(
    {".set_shape", ".items", ".keys", ".values", ".get", ".pop", ".append", ".update", "loop", "format"}
)
MAX_PICTURE_NUMBERS = 1024  # numbers, such as 28 x 28. Casting and scaling them takes 1 µs, less than the call.
MIN_WINDOWS = 1000  # about 0.1 ms each, for the data set and its iterator
PASSING_OPERATIONS = frozenset({"shuffle", "repeat", "map", "take", "skip", "with_options"})
LINE_SOURCES = frozenset({"TextLineDataset"})
# TensorFlow functions that take microseconds for so few numbers.
CHEAP_FUNCTIONS = frozenset(
    "cast one_hot expand_dims squeeze reshape stack unstack concat constant convert_to_tensor identity where greater "
    "less equal not_equal minimum maximum clip_by_value abs sign sqrt square log exp pow add subtract multiply divide "
    "reduce_mean reduce_sum reduce_max reduce_min reduce_std to_float to_int32 zeros_like ones_like shape split strip "
    "to_number transpose floor round tanh sigmoid sin cos log1p floormod mod join as_string to_hash_bucket "
    "to_hash_bucket_fast substr regex_full_match decode_csv parse_single_example FixedLenFeature convert_image_dtype "
    "ensure_shape set_shape logical_and logical_or logical_not gather boolean_mask range float32 int32 int64 "
    "sinh cosh tan asin acos atan atan2 asinh acosh atanh expm1 rsqrt reciprocal negative sigmoid softplus relu "
    "divide_no_nan truediv floordiv is_nan is_finite argmax argmin reduce_any reduce_all cumsum tile pad".split()
)
DRAWING_FUNCTIONS = frozenset({"normal", "uniform"})  # if they draw separate numbers for each element of a batch
CHEAP_BUILTINS = frozenset("dict zip list tuple len range enumerate float int pop items keys values".split())


def find_spots(source: Source) -> Iterable[Spot]:
    """Maps of cheap operations in front of ``batch``, over elements that are visibly small; maps of windows."""
    yield from spots.distinct_spots((*tiny_maps(source), *tiny_map_stages(source)))
    for call in window_maps(source):
        from slowtrain.causes.input.per_element_map import fix  # most files have no such map

        made = tuple(fix.gather_windows(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EXACT, "gather whole batches of windows by their index", edits=made)
        yield spots.operation_spot(call, "this makes a data set and an iterator for each window", cure)


def _tiny_map_spot(source: Source, call: ast.Call, element: str, ranks: tuple[int, ...] = ()) -> Spot:
    """``element``: what an element is. ``ranks``: ranks of its components if visible."""
    from slowtrain.script.fixes.input import batched_maps  # most files have no such map

    made = tuple(batched_maps.batch_before_map(source, edits.node_end(call.func)[0], None, ranks)[0])
    cure = Prescription("edit", Effect.EQUIVALENT, "batch first, then map over whole batches", edits=made)
    says = f"map is called for each {element}, and the call takes longer than its few operations"
    return spots.operation_spot(call, says, cure)


def tiny_map_stages(source: Source) -> Iterator[Spot]:
    """Find maps with only cheap ops over single small rows that are batched directly afterwards."""
    for data in interpreted_datasets.datasets_of(source) if ".map" in source.text else ():
        if {"cache", "snapshot"} & set(data.names):
            continue
        for at, stage in enumerate(data.stages):
            before = data.stages[:at]
            if stage.name != "batch" or interpreted_datasets.gives_batches(before) is not False:
                continue
            maps = dataset_stages.maps_of_rows(before)
            if not all(map(_is_cheap, maps)) or not dataset_stages.may_have_many_rows(before, MIN_EPOCH_ROWS):
                continue
            for each in maps:
                lines = any(one.name.rpartition(".")[2] == "decode_csv" for one in each.does)
                row = _row_description(each.before) or ("line of text" if lines else None)
                call = interpreted_datasets.stage_call(source, each)
                if row is not None and call is not None:
                    yield _tiny_map_spot(source, call, row)


def _is_cheap(stage: Stage) -> bool:
    """Whether a function of the script only runs ops that take microseconds."""
    if not stage.given.every or stage.given.every[0].kind not in dataset_stages.SCRIPT_KINDS or not stage.does:
        return bool(stage.given.every) and stage.given.every[0].kind == "function"
    return all(_is_quick_event(one) for one in stage.does)


def _is_quick_event(event: Event) -> bool:
    called = event.on is not None and event.on.kind in dataset_stages.SCRIPT_KINDS
    if called and not event.name.startswith("."):
        return True
    last = event.name.rpartition(".")[2]
    if event.name.startswith("tensorflow."):
        return last in CHEAP_FUNCTIONS or last in DRAWING_FUNCTIONS
    return event.name in QUIET_CALLS or event.name in CHEAP_BUILTINS


def _row_description(held: Value) -> str | None:
    """Return a description of a single element if it is certainly small; None otherwise."""
    several = list(interpreted_datasets.element_leaves(held))
    if any(one.shape is None or sum(n != 1 for n in one.shape) > 1 for one in several):
        return None
    many = held.kind == "tuple" and any(None in one.items for one in held.items.values() if one.kind == "dict")
    count = interpreted_datasets.element_numbers(held, batched=False)
    if count is None or not dataset_stages.MIN_NUMBERS <= count <= dataset_stages.MAX_NUMBERS:
        return None
    return "row" if many else f"row of {count} numbers"


def tiny_maps(source: Source) -> Iterator[Spot]:
    """Find each ``map`` before ``batch`` with only cheap operations on single small elements, in the text."""
    for call in call_index.index_of(source).calls_of("map") if whole_pipelines.pipelines_of(source) else ():
        mapped = dataset_chains.is_operation(call) and call.args
        several = whole_pipelines.pipelines_with(source, call) if mapped else []
        if not several or any("cache" in f.names or not whole_pipelines.is_element_wise(f, call) for f in several):
            continue
        flow = several[0]
        between = {node_lookup.called_name(c) for c in flow.calls_before(call)[1:]}
        element, function = _element_description(source, flow), whole_pipelines.mapped_function(source, call)
        if element is None or function is None or not between <= PASSING_OPERATIONS:
            continue
        if is_cheap_function(source, function, element) and not _has_other_work(source, flow, call):
            parts = element_sizes.element_parts(source, flow.calls[0]) if "map" not in between else []
            ranks = tuple(len(p.shape) for p in parts if p.shape is not None)
            yield _tiny_map_spot(source, call, element, ranks if len(ranks) == len(parts) else ())


def _has_other_work(source: Source, flow: dataset_chains.DatasetChain, call: ast.Call) -> bool:
    """Whether another map of single elements may take much longer than this one."""
    for other in flow.calls:
        if other is call or node_lookup.called_name(other) != "map" or not whole_pipelines.is_element_wise(flow, other):
            continue
        function = whole_pipelines.mapped_function(source, other)
        if function is None or not is_cheap_function(source, function, "row"):
            return True
    return False


def window_maps(source: Source) -> Iterator[ast.Call]:
    """Find ``flat_map`` after ``window`` of a table in memory, which makes a batch of each window."""
    for flow in whole_pipelines.pipelines_of(source) if call_index.index_of(source).calls_of("flat_map") else ():
        if flow.names[:3] != ("from_tensor_slices", "window", "flat_map") or "cache" in flow.names:
            continue
        count, flat = element_sizes.element_count(source, flow), flow.calls[2]
        function = whole_pipelines.mapped_function(source, flat)
        if function is None or (count is not None and count < MIN_WINDOWS):
            continue
        returned = [
            n.value for n in scope_names.nodes_in_scope(scope_names.scope_body(function)) if isinstance(n, ast.Return)
        ]
        back = [function.body] if isinstance(function, ast.Lambda) else returned
        made = back[0] if len(back) == 1 else None
        owner = made.func.value if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) else None
        batched = isinstance(made, ast.Call) and node_lookup.called_name(made) == "batch"
        if batched and owner is not None and scope_names.dotted_name(owner) in scope_names.parameter_names(function):
            yield flat


def _element_description(source: Source, flow: dataset_chains.DatasetChain) -> str | None:
    """Return a description of a single element if it is certainly small; None otherwise."""
    maker = flow.calls[0]
    if node_lookup.called_name(maker) in LINE_SOURCES:
        return "line of text"
    if node_lookup.called_name(maker) == "TFRecordDataset":
        return "record"
    # Processing an image takes time unless it is tiny; a row of a table does not. A part without visible rows (labels,
    # mostly) is as long as the others.
    parts = element_sizes.element_parts(source, maker)
    pictures = [p.shape for p in parts if p.shape is not None and len(p.shape) > 1]
    if any(len(one) > 2 or prod(one) > MAX_PICTURE_NUMBERS for one in pictures):
        return None
    numbers = [p.numbers for p in parts[:1]] + [p.numbers for p in parts[1:] if p.numbers is not None]
    whole = [n for n in numbers if n is not None]
    if not whole or len(whole) < len(numbers) or not 1 <= sum(whole) <= dataset_stages.MAX_NUMBERS:
        return None
    if pictures:
        return picture_text(pictures[0])
    return f"row of {sum(whole)} numbers" if sum(whole) >= dataset_stages.MIN_NUMBERS else None


def picture_text(shape: Sequence[int]) -> str:
    return f"image of {' x '.join(map(str, shape))}"


def is_cheap_function(source: Source, function: ast.AST, element: str) -> bool:
    """Whether a function certainly takes only microseconds: known cheap operations and arithmetic."""
    statements = whole_pipelines.reached_statements(source, function)
    if any(
        isinstance(n, (ast.While, ast.Lambda)) for s in statements for n in syntax_tree.walk(s) if n is not function
    ):
        return False
    found = []
    for call in whole_pipelines.calls_in(statements):
        name = node_lookup.called_name(call)
        if node_lookup.function_named(source, name, call) is not None:
            continue
        framework = name_bindings.qualified_name(source, call.func).startswith("tensorflow.")
        method = isinstance(call.func, ast.Attribute) and name in ("set_shape", *CHEAP_BUILTINS)
        plain = (
            isinstance(call.func, ast.Name)
            and name in CHEAP_BUILTINS
            and not scope_names.binding_statements(source, name, source.tree)
        )
        drawn = name in DRAWING_FUNCTIONS and element_sizes.shape_source(source, call) is not None
        if not ((framework and (name in CHEAP_FUNCTIONS or drawn)) or method or plain):
            return False
        found.append(name)
    if element == "record":
        return "parse_single_example" in found and _parses_few_numbers(source, statements)
    return element != "line of text" or "decode_csv" in found


def _parses_few_numbers(source: Source, statements: list[ast.AST]) -> bool:
    """Whether all parsed features of a record are few numbers, given inline or under one name."""
    every = whole_pipelines.calls_in(statements)
    for call in (c for c in every if node_lookup.called_name(c) == "parse_single_example"):
        given = node_lookup.argument_value(call, "features", 1)
        if isinstance(given, ast.Name):
            every += whole_pipelines.calls_in(_binding_statements(source, given))
    features = [c for c in every if node_lookup.called_name(c) in ("FixedLenFeature", "VarLenFeature", "RaggedFeature")]
    sizes = [_feature_size(source, c) for c in features]
    return bool(sizes) and None not in sizes and sum(n for n in sizes if n is not None) <= dataset_stages.MAX_NUMBERS


def _binding_statements(source: Source, name: ast.Name) -> list[ast.AST]:
    """Return module statements that bind ``name`` or store an item in it."""
    return [
        node
        for node in source.tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if scope_names.dotted_name(target.value if isinstance(target, ast.Subscript) else target) == name.id
    ]


def _feature_size(source: Source, feature: ast.Call) -> int | None:
    """Return the numbers of a feature of fixed length; None for other features, strings and unknown shapes."""
    shape, kind = node_lookup.argument_value(feature, "shape", 0), node_lookup.argument_value(feature, "dtype", 1)
    if isinstance(kind, ast.Attribute) and kind.attr == "string":
        return None
    if node_lookup.called_name(feature) != "FixedLenFeature" or not isinstance(shape, (ast.List, ast.Tuple)):
        return None
    sizes = [queries.int_at(source, e) for e in shape.elts]
    return None if None in sizes else prod(n for n in sizes if n is not None)
