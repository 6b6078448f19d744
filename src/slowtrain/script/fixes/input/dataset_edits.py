"""Edits of a tf.data pipeline: prefetch, parallel maps and file readers, caches and another order of operations.

Each function takes a line and returns the edits. The result is empty unless the text proves that the edit is
correct.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec.structs import replace

from slowtrain.model import Edit
from slowtrain.script.fixes.input import generator_edits
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits, dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

COMMUTING_OPERATIONS = frozenset({"map", "repeat", "prefetch", "with_options"})  # operations that commute with a map
ORDERED_SOURCES = frozenset(
    {"from_tensor_slices", "from_tensors", "from_generator", "range", "TFRecordDataset", "TextLineDataset",
     "FixedLengthRecordDataset", "CsvDataset", "zip"}
)  # fmt: skip
# A cache after these operations keeps every element of an epoch.
FINITE_OPERATIONS = frozenset(
    "map batch padded_batch ragged_batch filter flat_map interleave unbatch prefetch with_options enumerate skip take "
    "window ignore_errors concatenate".split()
)
CALLING_OPERATIONS = frozenset(
    {"map", "filter", "flat_map", "interleave"}
)  # operations that call a function of the script


# -- working ahead and in parallel


def add_prefetch(source: Source, line: int) -> list[Edit]:
    """Append ``.prefetch(tf.data.AUTOTUNE)`` to the pipeline at ``line``, unless it prefetches already."""
    last = dataset_chains.chain_at(source, line)
    if (
        last is None
        or node_lookup.called_name(last) == "prefetch"
        or not dataset_chains.may_be_dataset(dataset_chains.upstream_chain(source, last))
    ):
        return []
    if any("prefetch" in f.names[f.calls.index(last) :] for f in dataset_chains.chains_through(source, last)):
        return []
    if _disables_autotune(source):  # AUTOTUNE has no effect without the tuner
        return chain_edits.append_operation(source, last, ".prefetch(2)")
    text, also = autotune_reference(source)
    return [*also, *chain_edits.append_operation(source, last, f".prefetch({text})")]


def parallelise_map(source: Source, line: int, function_line: int | None = None) -> list[Edit]:
    """Set ``num_parallel_calls=tf.data.AUTOTUNE`` for the ``map`` at ``line``."""
    found = [c for c in dataset_chains.map_calls(source, line, function_line) if is_sequential_map(source, c)]
    if not found or any(
        has_starred_arguments(c) or not repeatable_functions.may_run_in_parallel(source, c.args[0], c) for c in found
    ):
        return []
    text, also = autotune_reference(source)
    for call in found:
        argument = node_lookup.argument_value(call, "num_parallel_calls", 1)
        also.append(
            edits.set_keyword(source, call, "num_parallel_calls", text)
            if argument is None else edits.replace_node(source, argument, text)
        )  # fmt: skip
    return also


def parallelise_interleave(source: Source, line: int) -> list[Edit]:
    """Set ``num_parallel_calls=tf.data.AUTOTUNE`` for the ``interleave`` at ``line``. The order of elements stays."""
    call = node_lookup.single_call(source, line, "interleave")
    if (
        call is None
        or not dataset_chains.is_operation(call)
        or has_starred_arguments(call)
        or len(call.args) > 3
        or node_lookup.argument_value(call, "num_parallel_calls")
    ):
        return []
    text, also = autotune_reference(source)
    return [*also, edits.set_keyword(source, call, "num_parallel_calls", text)]


def allow_any_order(source: Source, line: int, function_line: int | None = None) -> list[Edit]:
    """Set ``deterministic=False`` for the parallel ``map`` or ``interleave`` at ``line``."""
    found = dataset_chains.map_calls(source, line, function_line)
    found = found or [
        c for c in node_lookup.calls_at_line(source, line, "interleave") if dataset_chains.is_operation(c)
    ]
    if len(found) != 1 or has_starred_arguments(found[0]):
        return []
    at = (
        1 if node_lookup.called_name(found[0]) == "map" else 3
    )  # position of num_parallel_calls, which deterministic follows
    parallel = node_lookup.argument_value(found[0], "num_parallel_calls", at)
    if parallel is None or node_lookup.argument_value(found[0], "deterministic", at + 1) is not None:
        return []
    return [edits.set_keyword(source, found[0], "deterministic", "False")]


def autotune_reference(source: Source) -> tuple[str, list[Edit]]:
    """Return how the file refers to ``tf.data.AUTOTUNE``, and the edits for a missing import."""
    name, also = edits.ensure_import(source, "tensorflow", "tf")
    return f"{name}.data.AUTOTUNE", also


def remove_thread_limit(source: Source, line: int) -> list[Edit]:
    """Remove the thread limit that the file sets for the data set at ``line``, or the only one of the module."""
    limits = [
        n for n in call_index.nodes_of_class(source, ast.Assign)
        if len(n.targets) == 1 and isinstance(n.targets[0], ast.Attribute)
        and n.targets[0].attr in ("private_threadpool_size", "experimental_threading_private_threadpool_size")
    ]  # fmt: skip
    limits = [n for n in limits if n.lineno == line] or limits
    if len(limits) != 1 or (isinstance(limits[0].value, ast.Constant) and not limits[0].value.value):
        return []
    only = limits[0]
    block = scope_names.statement_block(source, only)
    row = source.text.splitlines()[only.lineno - 1]
    alone = ";" not in row and only.lineno == only.end_lineno and not row[: only.col_offset].strip()
    # 0 lets TensorFlow choose. The statement stays if its block would be empty without it.
    return (
        [edits.remove_statement(source, only)]
        if alone and len(block) > 1
        else [edits.replace_node(source, only.value, "0")]
    )


# -- once instead of every epoch


def add_cache(
    source: Source, line: int, function_line: int | None = None, *names: str, furthest: bool = False
) -> tuple[list[Edit], bool]:
    """Add ``.cache()`` after the ``map`` (or one of ``names``) at ``line``. Return whether results stay identical.

    A ``shuffle`` before it moves behind the cache. Otherwise, the cache would keep the order of the first epoch.
    ``furthest``: put the cache after all operations that follow and give the same elements in each epoch.
    """
    found = dataset_chains.map_calls(source, line, function_line, *names)
    if names:
        found = found or [
            c for c in node_lookup.calls_at_line(source, line, *names) if dataset_chains.makes_dataset(source, c)
        ]
    if len(found) != 1:
        return [], False
    call = found[0]
    several = dataset_chains.chains_through(source, call)
    if not several or any(_is_cached_after(f, call) or not f.whole for f in several):
        return [], False
    if all("take" in (node_lookup.called_name(c) for c in f.calls_after(call)) for f in several):
        return [], False  # TensorFlow discards a cache that is not filled completely
    flow = several[0]
    before = flow.calls_before(call)
    names_before = [node_lookup.called_name(c) for c in before]
    if not before and not has_fixed_order(source, call):
        return [], False
    functions = [c for c in (*before, call) if node_lookup.called_name(c) in CALLING_OPERATIONS]
    drawn = any(not c.args or repeatable_functions.may_vary_by_call(source, c.args[0]) for c in functions)
    known = FINITE_OPERATIONS | {"shuffle"}
    if drawn or not set(names_before[1:]) <= known:
        return [], False
    if before and not has_fixed_order(source, before[0]):
        return [], False
    if not _is_built_once(source, call, several):
        return [], False
    if "shuffle" not in names_before:
        at = _last_repeatable_operation(source, flow, call) if furthest and len(several) == 1 else call
        return chain_edits.append_operation(source, at, ".cache()"), True
    begun = names_before.index("shuffle")
    run = (*before[begun:], call)
    if any(node_lookup.called_name(c) not in ("map", "prefetch") for c in run[1:]) or not chain_edits.are_movable(
        source, run
    ):
        return [], False
    texts = [chain_edits.operation_text(source, c) for c in run]
    texts = [*texts[1:], f"cache().{texts[0]}"]
    return chain_edits.replace_operations(source, run, texts), False


def add_disk_cache(source: Source, line: int, function_line: int | None = None, *names: str) -> tuple[list[Edit], bool]:
    """As :func:`add_cache`, with files in a temporary folder that is removed when the script ends.

    So no later run reads the files. TensorFlow would not notice that they are of other data or of another function.
    """
    cache_edits, same = add_cache(source, line, function_line, *names)
    keeping = [e for e in cache_edits if "cache()" in e.text]
    if len(keeping) != 1 or keeping[0].text.count("cache()") != 1:
        return [], False
    module, also = edits.ensure_import(source, "tempfile", "tempfile")
    folder = "kept_elements"
    if folder in source.text:
        return [], False
    at = next(s for s in source.tree.body if edits.node_start(s) <= keeping[0].start <= edits.node_end(s))
    folder_edit = edits.insert_before(source, at, f'{folder} = {module}.TemporaryDirectory(dir=".")')
    path = f'cache({module}.mkdtemp(dir={folder}.name) + "/cache")'
    return [*also, folder_edit, *(replace(e, text=e.text.replace("cache()", path)) for e in cache_edits)], same


def _is_cached_after(flow: dataset_chains.DatasetChain, call: ast.Call) -> bool:
    """Whether a cache after ``call`` keeps its output already."""
    return any(node_lookup.called_name(c) == "cache" for c in flow.calls_after(call))


def _last_repeatable_operation(source: Source, flow: dataset_chains.DatasetChain, call: ast.Call) -> ast.Call:
    """Return the last operation after ``call`` before which nothing is random, repeated or reordered."""
    for after in flow.calls_after(call):
        name = node_lookup.called_name(after)
        fixed = name == "batch" or (
            name in CALLING_OPERATIONS
            and after.args
            and not repeatable_functions.may_vary_by_call(source, after.args[0])
        )
        if not fixed or scope_names.enclosing_loops(source, after):
            break
        call = after
    return call


# -- in another order


def shuffle_before_map(source: Source, line: int) -> list[Edit]:
    """Replace ``.map(f).shuffle(n)`` at ``line`` by ``.shuffle(n).map(f)``, so that the buffer holds inputs of the
    map.
    """
    found = [c for c in node_lookup.calls_at_line(source, line, "shuffle") if dataset_chains.is_operation(c)]
    if len(found) != 1:
        return []
    flow = dataset_chains.upstream_chain(source, found[0])
    run = [found[0]]
    for call in reversed(flow.calls_before(found[0])):
        if node_lookup.called_name(call) not in COMMUTING_OPERATIONS:
            break
        run.insert(0, call)
    while run and node_lookup.called_name(run[0]) != "map":
        run.pop(0)
    if len(run) < 2 or not chain_edits.are_movable(source, run):
        return []
    maps = [c for c in run if node_lookup.called_name(c) == "map"]
    order = [*(c for c in run if c not in maps), *maps]
    return chain_edits.replace_operations(source, run, [chain_edits.operation_text(source, c) for c in order])


# -- what the text says


def has_fixed_order(source: Source, maker: ast.Call) -> bool:
    """Whether a data set gives the same elements in the same order in each epoch."""
    name = node_lookup.called_name(maker)
    if name == "from_generator":
        generator = node_lookup.argument_value(maker, "generator", 0)
        return generator is not None and generator_edits.is_repeatable_generator(source, generator, maker)
    if name == "list_files":
        shuffled = node_lookup.argument_value(maker, "shuffle", 1)
        return isinstance(shuffled, ast.Constant) and shuffled.value is False
    return name in ORDERED_SOURCES


def _is_built_once(source: Source, call: ast.Call, several: Sequence[dataset_chains.DatasetChain]) -> bool:
    """Whether no loop rebuilds the pipeline. A rebuilt pipeline starts with an empty cache."""
    return not scope_names.enclosing_loops(source, call) and not any(
        scope_names.enclosing_loops(source, f.calls[0]) for f in several
    )


def is_sequential_map(source: Source, call: ast.Call) -> bool:
    """Whether a ``map`` runs one call at a time, because its number of parallel calls is missing, 1 or None."""
    argument = node_lookup.argument_value(call, "num_parallel_calls", 1)
    none = isinstance(argument, ast.Constant) and argument.value is None
    return argument is None or none or queries.int_at(source, argument) == 1


def has_starred_arguments(call: ast.Call) -> bool:
    return any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def _disables_autotune(source: Source) -> bool:
    """Whether the file disables the tuner of tf.data."""
    return any(
        isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant) and n.value.value is False
        and any(scope_names.dotted_name(t).endswith("autotune.enabled") for t in n.targets)
        for n in syntax_tree.walk(source.tree)
    )  # fmt: skip


def read_files_in_parallel(source: Source, line: int) -> tuple[list[Edit], bool]:
    """Let the record reader at ``line`` read several files at once. Return whether records keep their order."""
    if found := parallelise_interleave(source, line):
        return found, True
    reader = node_lookup.single_call(source, line, "TFRecordDataset")
    names = node_lookup.argument_value(reader, "filenames", 0) if reader is not None else None
    if reader is None or names is None or not dataset_chains.makes_dataset(source, reader):
        return [], False
    argument = node_lookup.argument_value(reader, "num_parallel_reads", 3)
    if argument is not None or has_starred_arguments(reader) or not _names_several_files(source, names):
        return [], False
    text, also = autotune_reference(source)
    return [*also, edits.set_keyword(source, reader, "num_parallel_reads", text)], False


def open_files_in_parallel(source: Source, line: int) -> list[Edit]:
    """Let ``interleave`` at ``line`` open several files at once, if the elements keep their order."""
    found, same = read_files_in_parallel(source, line)
    inside = [c for c in node_lookup.calls_at_line(source, line, "interleave") if dataset_chains.is_operation(c)]
    sure = same and len(inside) == 1 and inside[0].args and "deterministic" not in source.text
    alike = sure and not repeatable_functions.may_vary_by_call(source, inside[0].args[0])
    return found if alike and repeatable_functions.may_run_in_parallel(source, inside[0].args[0], inside[0]) else []


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
