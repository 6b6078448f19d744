"""The edit that gives the function of a map the content of its file, which it reads itself so far."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits, dataset_chains, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

READING_CALLS = ("tensorflow.io.read_file", "tensorflow.compat.v1.read_file", "tensorflow.compat.v1.io.read_file")
CONTENT_NAME = "packed_content"
# Between the file names and the map: they keep each element as it is.
ELEMENT_KEEPING_OPERATIONS = frozenset("shuffle repeat take skip shard prefetch with_options".split())
NAMING_SOURCES = frozenset({"from_tensor_slices", "list_files", "zip"})


@dataclass(frozen=True)
class FileReading:
    """A map that reads one file for each element. ``maker`` makes the data set of the names.

    ``position``: of the name in an element. ``marked_edits`` add ``.cache()`` behind the maker; ``function_edits`` give
    the function a last parameter with the content of the file.
    """

    maker: ast.Call
    position: int
    marked_edits: Sequence[Edit]
    function_edits: Sequence[Edit]


def find_file_reading(source: Source, line: int) -> FileReading | None:
    """The file reading of the only map at ``line``, if its text proves that the content can be handed to it."""
    calls = dataset_chains.map_calls(source, line)
    flows = dataset_chains.chains_through(source, calls[0]) if len(calls) == 1 else []
    if not flows or CONTENT_NAME in source.text or any(not flow.whole for flow in flows):
        return None
    maker, *between = flows[0].calls_before(calls[0]) or [calls[0]]
    names = {node_lookup.called_name(call) for call in between}
    if (
        len({flow.calls[0] for flow in flows}) != 1
        or node_lookup.called_name(maker) not in NAMING_SOURCES
        or not names <= ELEMENT_KEEPING_OPERATIONS
        or not dataset_edits.has_fixed_order(source, maker)
    ):
        return None
    function = whole_pipelines.mapped_function(source, calls[0])
    reading = _single_reading(source, function) if function is not None else None
    if function is None or reading is None:
        return None
    position, read = reading
    name = edits.node_text(source, read)
    given = edits.replace_node(source, read, f"({name} if {CONTENT_NAME} is None else {CONTENT_NAME})")
    marked = chain_edits.append_operation(source, maker, ".cache()")
    return FileReading(maker, position, marked, [_added_parameter(source, function), given])


def _single_reading(source: Source, function: ast.FunctionDef | ast.Lambda) -> tuple[int, ast.Call] | None:
    """The number of the parameter that names the file, and the only call that reads it."""
    given = function.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
        return None
    if isinstance(function, ast.FunctionDef) and function.decorator_list:
        return None
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    calls = [node for one in body for node in syntax_tree.walk(one) if isinstance(node, ast.Call)]
    reads = [call for call in calls if scope_names.resolved_name(source, call.func) in READING_CALLS]
    if len(reads) != 1 or len(reads[0].args) != 1 or reads[0].keywords:
        return None
    file, parameters = reads[0].args[0], [one.arg for one in given.args]
    if not isinstance(file, ast.Name) or file.id not in parameters or parameters[:1] == ["self"]:
        return None
    if any(file.id in scope_names.bound_names(one) for one in body):
        return None
    return parameters.index(file.id), reads[0]


def _added_parameter(source: Source, function: ast.FunctionDef | ast.Lambda) -> Edit:
    """The edit that adds the content as a last parameter, which may be omitted."""
    last: list[ast.arg | ast.expr] = [*function.args.args, *function.args.defaults]
    at = max(edits.node_end(node) for node in last)
    return edits.insert_text(source, at, f", {CONTENT_NAME}=None")
