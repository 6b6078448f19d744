"""The pipelines of a file: those from which training takes its batches, and the work of their functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, node_lookup, project_files, scope_names, setting_origins
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

WORKING_OPERATIONS = frozenset("map interleave flat_map filter from_generator".split())
TRANSPARENT_CALLS = frozenset({"enumerate", "iter", "tqdm", "experimental_distribute_dataset"})


@cache_recent(4)
def training_chains(source: Source) -> tuple[dataset_chains.DatasetChain, ...]:
    """The pipelines whose operations are known, once per place that takes from them."""
    return tuple(_find_training_chains(source))


def _find_training_chains(source: Source) -> Iterator[dataset_chains.DatasetChain]:
    if not dataset_chains.may_make_dataset(source) and not project_files.may_import_project_files(source):
        return
    for call in call_index.index_of(source).calls_of("fit"):
        data = node_lookup.argument_value(call, "x", 0)
        yield from chains_behind(source, data, call)
    if not call_index.index_of(source).calls_of(*call_index.STEP_CALLS):  # saves following the loops of most files
        return
    for loop in call_index.nodes_of_class(source, ast.For):
        for flow in chains_behind(source, loop.iter, loop):
            if call_index.reaches_training_step(source, loop.body):
                yield flow


def chains_behind(source: Source, data: ast.expr | None, place: ast.AST) -> Iterator[dataset_chains.DatasetChain]:
    """The pipeline behind an expression, through names and ``enumerate``; none if its source is unknown."""
    for _ in range(dataset_chains.MAX_LINKS):
        if isinstance(data, ast.Name):
            data = dataset_chains.last_assignment(source, data, place) or dataset_chains.parameter_argument(
                source, data
            )
            place = data if data is not None else place
        elif isinstance(data, ast.Call) and node_lookup.called_name(data) in TRANSPARENT_CALLS and data.args:
            data = data.args[0]
        else:
            break
    if isinstance(data, ast.Call):
        flow = dataset_chains.upstream_chain(source, data)
        if flow.is_known:
            yield flow


BATCHING_OPERATIONS = frozenset(
    {"batch", "padded_batch", "ragged_batch", "bucket_by_sequence_length", "group_by_window", "window", "sparse_batch"}
)
MIN_PASSES = 2  # passes; from the second one on a cache is read


@cache_recent(4)
def pipelines_of(source: Source) -> tuple[dataset_chains.DatasetChain, ...]:
    """Each pipeline whose source is known, to its end, without parts of longer ones."""
    if not dataset_chains.may_make_dataset(source):
        return ()
    makers = (c for name in dataset_chains.maker_names(source) for c in call_index.index_of(source).calls_of(name))
    if not any(dataset_chains.makes_dataset(source, c) for c in makers):
        return ()
    found = [f for f in dataset_chains.all_chains(source) if f.whole]
    longest: dict[ast.Call, int] = {}
    for flow in found:
        for place, call in enumerate(flow.calls):
            longest[call] = max(longest.get(call, 0), len(flow.calls) - place)
    return tuple(dict.fromkeys(f for f in found if longest[f.calls[-1]] == 1))


def pipelines_with(source: Source, call: ast.Call) -> list[dataset_chains.DatasetChain]:
    """The pipelines that contain ``call``."""
    return [f for f in pipelines_of(source) if call in f.calls]


def is_element_wise(flow: dataset_chains.DatasetChain, call: ast.Call) -> bool:
    """Whether ``call`` receives single elements that are batched later."""
    before = {node_lookup.called_name(c) for c in flow.calls_before(call)}
    after = {node_lookup.called_name(c) for c in flow.calls_after(call)}
    return bool(after & BATCHING_OPERATIONS) and not before & (
        BATCHING_OPERATIONS | {"flat_map", "interleave", "apply", "unbatch"}
    )


def mapped_function(source: Source, call: ast.Call) -> ast.FunctionDef | ast.Lambda | None:
    """The function of this file that an operation calls for each element."""
    function = call.args[0] if call.args else node_lookup.argument_value(call, "map_func")
    if isinstance(function, ast.Lambda):
        return function
    if isinstance(function, (ast.Name, ast.Attribute)):
        found = node_lookup.function_named(
            source, function.id if isinstance(function, ast.Name) else function.attr, call
        )
        return found if found is not None else queries.call_method_at(source, function)
    return queries.call_method_at(source, function) if isinstance(function, ast.Call) else None


def live_statements(node: ast.AST) -> list[ast.AST]:
    """The statements of a function up to its first unconditional ``return`` or ``raise``."""
    found = []
    for statement in scope_names.scope_body(node):
        found.append(statement)
        if isinstance(statement, (ast.Return, ast.Raise)):
            break
    return found


def reached_statements(source: Source, start: ast.AST) -> list[ast.AST]:
    """The reachable statements of a function, and of the functions of this file that they call."""
    found: list[ast.AST] = []
    todo, seen = [start], {start}
    while todo:
        statements = live_statements(todo.pop())
        found += statements
        for call in calls_in(statements):
            inner = node_lookup.function_named(source, node_lookup.called_name(call), call)
            if inner is not None and inner not in seen:
                seen.add(inner)
                todo.append(inner)
    return found


def calls_in(statements: Sequence[ast.AST]) -> list[ast.Call]:
    """All calls in ``statements``."""
    return syntax_tree.nodes_inside(statements, ast.Call)


def is_read_repeatedly(source: Source, flow: dataset_chains.DatasetChain) -> bool:
    """Whether training surely iterates ``flow`` more than once."""
    for fit in call_index.index_of(source).calls_of("fit"):
        data, count = node_lookup.argument_value(fit, "x", 0), node_lookup.argument_value(fit, "epochs")
        if count is None or node_lookup.argument_value(fit, "steps_per_epoch") is not None:
            continue
        if flow in chains_behind(source, data, fit) and (setting_origins.literal_int(source, count) or 0) >= MIN_PASSES:
            return True
    for loop in call_index.nodes_of_kind(source, ast.For):
        if (
            isinstance(loop, ast.For)
            and scope_names.enclosing_loops(source, loop)
            and flow in chains_behind(source, loop.iter, loop)
        ):
            return True
    return False


# Functions of TensorFlow, by (the start of) their last name, that take longer than the overhead of a parallel call.
COSTLY_PREFIXES = (
    "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_wav", "decode_csv", "decode_json",
    "decode_and_crop", "decode_compressed", "decode_proto", "read_file", "parse_", "resize", "random_", "adjust_",
    "rot90", "crop_", "central_crop", "rgb_to_", "stft", "mfcc", "fft", "rfft", "spectrogram", "regex_", "unicode_",
    "string_split", "matmul", "einsum", "conv2d", "sort", "argsort", "unique", "py_function", "numpy_function",
    "sample_distorted", "tokenize",
)  # fmt: skip
READING_PREFIXES = ("decode_", "read_file")  # those that start from a file's bytes
FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
MAX_FILES = 3  # other files that are followed
MIN_OPS = 8  # assumed: this many calls of framework ops in one function are worth a thread


class Work(Struct, frozen=True):
    """``says``: the function that works; ``python``: it runs in Python's interpreter."""

    says: str
    python: bool


def function_work(source: Source, function: ast.expr, near: ast.AST) -> Work | None:
    """The work in ``function`` and its callees in the project; None if it is little or not visible."""
    several = _looped_functions(source, function)
    if several:
        found = [one for each in several if (one := function_work(source, each, near)) is not None]
        return max(found, key=lambda one: one.python, default=None)
    start: ast.AST | None = function
    if isinstance(function, (ast.Name, ast.Attribute)):
        named = project_files.named_function(source, function, near)
        source, start = (named.source, named.function) if named is not None else (source, None)
    if start is None or isinstance(start, ast.Call):
        start = queries.call_method_at(source, function)
    if not isinstance(start, (ast.Lambda, ast.FunctionDef)):
        return None
    return _work_of_calls(_called_names(source, start, MAX_FILES))


def _looped_functions(source: Source, function: ast.expr) -> list[ast.expr]:
    """The functions that a loop iterates: ``for stage in (read, crop): ds = ds.map(stage)``."""
    for loop in scope_names.enclosing_loops(source, function) if isinstance(function, ast.Name) else ():
        if isinstance(loop, ast.For) and scope_names.dotted_name(loop.target) == scope_names.dotted_name(function):
            over = setting_origins.written_value(source, loop.iter)
            if isinstance(over, (ast.List, ast.Tuple)):
                return [e for e in over.elts if isinstance(e, (ast.Name, ast.Attribute, ast.Lambda))]
    return []


def _called_names(source: Source, start: ast.AST, depth: int) -> list[tuple[str, str]]:
    """The last and the full name of each callee of ``start``, in functions of other files too."""
    parts = source.reachable_functions(start)
    found = [
        (node_lookup.called_name(call), scope_names.resolved_name(source, call.func))
        for call in syntax_tree.nodes_inside(parts, ast.Call)
    ]
    for other in [o for one in parts for o in project_files.called_imports(source, one)] if depth else ():
        found += _called_names(other.source, other.function, depth - 1)
    return found


def _work_of_calls(calls: list[tuple[str, str]]) -> Work | None:
    python = any(name in repeatable_functions.PYTHON_OPS for name, _ in calls)
    ours = [name for name, full in calls if full.startswith(FRAMEWORKS)]
    for name in ours:
        if name.startswith(COSTLY_PREFIXES):
            return Work(name, python)
    return Work(f"{len(ours)} ops", python) if len(ours) >= MIN_OPS else None
