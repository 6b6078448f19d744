"""Edits that read several files of a tf.data pipeline at once."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def read_files_in_parallel(source: Source, line: int) -> tuple[list[Edit], bool]:
    """Let the record reader at ``line`` read several files at once. Return whether records keep their order."""
    inside = [c for c in node_lookup.calls_at_line(source, line, "interleave") if dataset_chains.is_operation(c)]
    if (
        len(inside) == 1
        and node_lookup.argument_value(inside[0], "num_parallel_calls") is None
        and not dataset_edits.has_starred_arguments(inside[0])
    ):
        text, also = dataset_edits.autotune_reference(source)
        return [*also, edits.set_keyword(source, inside[0], "num_parallel_calls", text)], True
    readers = [
        c
        for c in node_lookup.calls_at_line(source, line, "TFRecordDataset", "TextLineDataset")
        if dataset_chains.makes_dataset(source, c)
    ]
    if len(readers) != 1:
        return [], False
    reader = readers[0]
    if (
        node_lookup.called_name(reader) != "TFRecordDataset"
        or node_lookup.argument_value(reader, "num_parallel_reads", 3) is not None
        or dataset_edits.has_starred_arguments(reader)
    ):
        return [], False
    names = node_lookup.argument_value(reader, "filenames", 0)
    if names is None or not _names_several_files(source, names):
        return [], False
    text, also = dataset_edits.autotune_reference(source)
    return [*also, edits.set_keyword(source, reader, "num_parallel_reads", text)], False


def open_files_in_parallel(source: Source, line: int) -> list[Edit]:
    """Let ``interleave`` at ``line`` open several files at once, if the elements keep their order."""
    made, same = read_files_in_parallel(source, line)
    inside = [c for c in node_lookup.calls_at_line(source, line, "interleave") if dataset_chains.is_operation(c)]
    sure = same and len(inside) == 1 and inside[0].args and "deterministic" not in source.text
    alike = sure and not repeatable_functions.may_vary_by_call(source, inside[0].args[0])
    return made if alike and repeatable_functions.may_run_in_parallel(source, inside[0].args[0], inside[0]) else []


def is_shuffled_later(source: Source, line: int) -> bool:
    """Whether the pipeline at ``line`` shuffles its elements after that line."""
    call = dataset_chains.chain_at(source, line)
    several = dataset_chains.chains_through(source, call) if call is not None else []
    return bool(several) and all("shuffle" in f.names for f in several)


def _names_several_files(source: Source, names: ast.expr) -> bool:
    """Whether ``names`` is certainly more than one file."""
    if isinstance(names, ast.Name):
        value = name_bindings.single_assignment(source, names)
        return value is not None and _names_several_files(source, value)
    if isinstance(names, ast.Call) and node_lookup.called_name(names) in ("sorted", "list") and names.args:
        return _names_several_files(source, names.args[0])
    listed = isinstance(names, ast.Call) and node_lookup.called_name(names) in ("glob", "rglob", "listdir")
    return listed or isinstance(names, ast.ListComp)
