"""Whether a function given to ``map`` does enough work to be worth a thread, as far as its text shows."""

from __future__ import annotations

import ast

from slowtrain.source import Source, trees
from slowtrain.source.reading import elsewhere, finding, repeatable, scopes, settings
from slowtrain.values import dataclass

# Functions of TensorFlow, by (the start of) their last name, that take longer than the overhead of a parallel call.
WORKING = (
    "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_wav", "decode_csv", "decode_json",
    "decode_and_crop", "decode_compressed", "decode_proto", "read_file", "parse_", "resize", "random_", "adjust_",
    "rot90", "crop_", "central_crop", "rgb_to_", "stft", "mfcc", "fft", "rfft", "spectrogram", "regex_", "unicode_",
    "string_split", "matmul", "einsum", "conv2d", "sort", "argsort", "unique", "py_function", "numpy_function",
    "sample_distorted", "tokenize",
)  # fmt: skip
READING = ("decode_", "read_file")  # those that start from a file's bytes
FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
DEEPEST = 3  # other files that are followed
SEVERAL = 8  # assumed: this many calls of framework ops in one function are worth a thread


@dataclass(frozen=True)
class Work:
    """``says``: the function that works; ``python``: it runs in Python's interpreter."""

    says: str
    python: bool


def work(source: Source, function: ast.expr, near: ast.AST) -> Work | None:
    """The work in ``function`` and its callees in the project; None if it is little or not visible."""
    several = _of_loop(source, function)
    if several:
        found = [one for each in several if (one := work(source, each, near)) is not None]
        return max(found, key=lambda one: one.python, default=None)
    start: ast.AST | None = function
    if isinstance(function, (ast.Name, ast.Attribute)):
        name = function.id if isinstance(function, ast.Name) else function.attr
        start = finding.defined(source, name, near)
        other = elsewhere.function(source, function) if start is None else None
        if other is not None:
            source, start = other.source, other.function
    if start is None or isinstance(start, ast.Call):
        start = settings.called(source, function)
    if not isinstance(start, (ast.Lambda, ast.FunctionDef)):
        return None
    return _judged(_calls(source, start, DEEPEST))


def _of_loop(source: Source, function: ast.expr) -> list[ast.expr]:
    """The functions that a loop iterates: ``for stage in (read, crop): ds = ds.map(stage)``."""
    for loop in scopes.loops(source, function) if isinstance(function, ast.Name) else ():
        if isinstance(loop, ast.For) and scopes.dotted(loop.target) == scopes.dotted(function):
            over = settings.written(source, loop.iter)
            if isinstance(over, (ast.List, ast.Tuple)):
                return [e for e in over.elts if isinstance(e, (ast.Name, ast.Attribute, ast.Lambda))]
    return []


def _calls(source: Source, start: ast.AST, depth: int) -> list[tuple[str, str]]:
    """The last and the full name of each callee of ``start``, in functions of other files too."""
    parts = source.called(start)
    found = [
        (finding.called(n), scopes.full(source, n.func))
        for one in parts
        for n in trees.walk(one)
        if isinstance(n, ast.Call)
    ]
    for other in [o for one in parts for o in elsewhere.called(source, one)] if depth else ():
        found += _calls(other.source, other.function, depth - 1)
    return found


def _judged(calls: list[tuple[str, str]]) -> Work | None:
    python = any(name in repeatable.CALLING_PYTHON for name, _ in calls)
    ours = [name for name, full in calls if full.startswith(FRAMEWORKS)]
    for name in ours:
        if name.startswith(WORKING):
            return Work(name, python)
    return Work(f"{len(ours)} ops", python) if len(ours) >= SEVERAL else None
