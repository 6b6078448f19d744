"""Whether a function given to ``map`` does enough work to be worth a thread, as far as its text shows."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import imported_functions, node_lookup, scope_names
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

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


@dataclass(frozen=True)
class Work:
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
        name = function.id if isinstance(function, ast.Name) else function.attr
        start = node_lookup.function_named(source, name, near)
        other = imported_functions.imported_function(source, function) if start is None else None
        if other is not None:
            source, start = other.source, other.function
    if start is None or isinstance(start, ast.Call):
        start = setting_origins.call_method(source, function)
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
    parts = source.called(start)
    found = [
        (node_lookup.called_name(n), scope_names.resolved_name(source, n.func))
        for one in parts
        for n in syntax_tree.walk(one)
        if isinstance(n, ast.Call)
    ]
    for other in [o for one in parts for o in imported_functions.called_imports(source, one)] if depth else ():
        found += _called_names(other.source, other.function, depth - 1)
    return found


def _work_of_calls(calls: list[tuple[str, str]]) -> Work | None:
    python = any(name in repeatable_functions.PYTHON_OPS for name, _ in calls)
    ours = [name for name, full in calls if full.startswith(FRAMEWORKS)]
    for name in ours:
        if name.startswith(COSTLY_PREFIXES):
            return Work(name, python)
    return Work(f"{len(ours)} ops", python) if len(ours) >= MIN_OPS else None
