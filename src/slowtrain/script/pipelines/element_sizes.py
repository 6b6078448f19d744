"""The elements of a pipeline, as far as the text shows them: number, shapes, dtypes."""

from __future__ import annotations

import ast
from math import prod

from msgspec import Struct

from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, interpreted_datasets, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# Functions that draw or make float64 numbers.
FLOAT_DRAWS = frozenset("rand randn random random_sample normal uniform standard_normal linspace".split())
_RESIZE_SIZE_POSITIONS = {"resize": 1, "resize_with_pad": 1, "Resizing": 0}  # position of the size
_SHAPE_POSITIONS = {"ensure_shape": 1, "random_crop": 1, "stateless_random_crop": 1, "reshape": 1, "set_shape": 0}
ASSUMED_CHANNELS = 3
MAX_DEPTH = 6
GROWING_OPERATIONS = frozenset("repeat flat_map interleave unbatch apply concatenate".split())  # may add elements


class ElementPart(Struct, frozen=True):
    """A component of an element: its expression, shape and dtype; None if unknown."""

    node: ast.expr
    shape: tuple[int, ...] | None
    dtype: str | None

    @property
    def numbers(self) -> int | None:
        return prod(self.shape) if self.shape is not None else None


def element_parts(source: Source, maker: ast.Call) -> list[ElementPart]:
    """The components of the elements of ``from_tensor_slices``; empty for other makers."""
    if node_lookup.called_name(maker) != "from_tensor_slices" or not maker.args:
        return []
    return [
        ElementPart(node, _row_shape(source, node), interpreter.value_at(source, node).dtype or None)
        for node in _leaf_arrays(source, maker.args[0])
    ]


def _leaf_arrays(source: Source, data: ast.expr, depth: int = MAX_DEPTH) -> list[ast.expr]:
    """The arrays of a structure literal, also behind a name."""
    assigned = name_bindings.single_assignment(source, data) if isinstance(data, ast.Name) else None
    if isinstance(assigned, ast.Dict) and depth and not _is_stored_into(source, data):
        data = assigned
    if isinstance(data, ast.Dict):
        return [leaf for value in data.values for leaf in _leaf_arrays(source, value, depth - 1)]
    if isinstance(data, ast.Tuple):  # a list is one array, a tuple several
        return [leaf for value in data.elts for leaf in _leaf_arrays(source, value, depth - 1)]
    return [data]


def _is_stored_into(source: Source, mapping: ast.expr) -> bool:
    """Whether a value is stored under a key of a mapping after its creation."""
    name = scope_names.dotted_name(mapping)
    return any(
        isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and scope_names.dotted_name(n.value) == name
        for n in call_index.nodes_of_kind(source, ast.Subscript)
    )


def element_count(source: Source, flow: dataset_chains.DatasetChain) -> int | None:
    """The number of elements that the first operation of a pipeline gives; None if unknown."""
    maker = flow.calls[0]
    name = node_lookup.called_name(maker)
    if name == "range" and len(maker.args) == 1:
        return queries.int_at(source, maker.args[0])
    if name == "from_generator":
        return _yield_count(source, maker)
    if name != "from_tensor_slices" or not maker.args:
        return None
    known = [n for n in (queries.row_count_at(source, e) for e in _leaf_arrays(source, maker.args[0])) if n is not None]
    return known[0] if known else None


def max_elements(source: Source, flow: dataset_chains.DatasetChain) -> int | None:
    """The maximum number of elements at the end of a pipeline, batches counted as one; None if unknown."""
    if not flow.whole:
        return None
    maker = flow.calls[0]
    known = {"from_tensors": 1, "range": _range_count(source, maker)}.get(
        node_lookup.called_name(maker)
    ) or element_count(source, flow)
    for call in flow.calls[1:]:
        name = node_lookup.called_name(call)
        if name == "take":
            taken = queries.int_at(source, node_lookup.argument_value(call, "count", 0))
            known = min((n for n in (known, taken) if n is not None and n >= 0), default=None)
        elif name in GROWING_OPERATIONS:
            known = None
    return known


def _range_count(source: Source, maker: ast.Call) -> int | None:
    ends = [queries.int_at(source, a) for a in maker.args[:2]]
    if not ends or None in ends or len(maker.args) > 2:
        return None
    return max((ends[-1] or 0) - (ends[0] or 0 if len(ends) > 1 else 0), 1)


def shape_source(source: Source, call: ast.Call) -> ast.expr | None:
    """The ``x`` of ``tf.random.normal(shape=tf.shape(x))``, because the result has its shape; else None."""
    shape = node_lookup.argument_value(call, "shape", 0)
    plain = isinstance(shape, ast.Call) and len(shape.args) == 1 and not shape.keywords
    named = plain and scope_names.resolved_name(source, shape.func) == "tensorflow.shape"  # type: ignore[union-attr]
    return shape.args[0] if named else None  # type: ignore[union-attr]


def max_mapped_numbers(source: Source, call: ast.Call) -> int | None:
    """The maximum numbers per element that the function of a ``map`` returns, by its resizing and reshaping."""
    function = whole_pipelines.mapped_function(source, call)
    if function is None:
        return None
    found = []
    for inner in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function)):
        name = node_lookup.called_name(inner)
        at = {**_RESIZE_SIZE_POSITIONS, **_SHAPE_POSITIONS}.get(name)
        outputs = (
            node_lookup.argument_value(inner, "size" if name in _RESIZE_SIZE_POSITIONS else "shape", at)
            if at is not None
            else None
        )
        if not isinstance(outputs, (ast.Tuple, ast.List)):
            continue
        sizes = [queries.int_at(source, e) for e in outputs.elts]
        whole = [s for s in sizes if s is not None]
        if len(whole) == len(sizes) and min(whole, default=0) > 0:
            found.append(prod(whole) * (ASSUMED_CHANNELS if name in _RESIZE_SIZE_POSITIONS else 1))
    return sum(found) or None


def signature_numbers(source: Source, maker: ast.Call) -> int | None:
    """The count of numbers in one element of ``from_generator``; None if unknown."""
    dataset = queries.dataset_at(source, maker)
    return (
        interpreted_datasets.element_numbers(dataset.of, batched=False) if dataset is not None and dataset.of else None
    )


def _row_shape(source: Source, node: ast.expr) -> tuple[int, ...] | None:
    """The shape of one row of an array."""
    found = queries.shape_at(source, node)
    rest = [n for n in found[1:] if n is not None] if found else []
    return tuple(rest) if found and len(rest) == len(found) - 1 else None


def _yield_count(source: Source, maker: ast.Call) -> int | None:
    """The number of items of a generator that yields once per iteration of one loop of known length."""
    argument = node_lookup.argument_value(maker, "generator", 0)
    generator = node_lookup.function_named(source, argument.id, maker) if isinstance(argument, ast.Name) else None
    if generator is None:
        return None
    yields = [n for n in syntax_tree.walk(generator) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    above = node_lookup.parents_of(source)
    statement = node_lookup.enclosing_statement(source, yields[0]) if len(yields) == 1 else None
    loop = above.get(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or above.get(loop) is not generator:
        return None
    return queries.loop_turns(source, loop)
