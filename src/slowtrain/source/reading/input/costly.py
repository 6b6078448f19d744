"""Whether a function given to ``map`` does work that is worth a thread, as far as its text tells."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from slowtrain.source import Source
from slowtrain.source.reading import finding, repeatable, scopes

# Functions of TensorFlow (by their last name, or the beginning of it) that take longer than a call costs.
WORKING = (
    "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_wav", "decode_csv", "decode_json",
    "decode_and_crop", "decode_compressed", "decode_proto", "read_file", "parse_", "resize", "random_", "adjust_",
    "rot90", "crop_", "central_crop", "rgb_to_", "stft", "mfcc", "fft", "rfft", "spectrogram", "regex_", "unicode_",
    "string_split", "matmul", "einsum", "conv2d", "sort", "argsort", "unique", "py_function", "numpy_function",
    "sample_distorted", "tokenize",
)  # fmt: skip
FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
SEVERAL = 8  # assumed: as many calls of a framework's ops in one function are work together


@dataclass(frozen=True)
class Work:
    """``says`` names it; ``python``: it runs in Python's interpreter."""

    says: str
    python: bool


def work(source: Source, function: ast.expr, near: ast.AST) -> Work | None:
    """The work in ``function`` and what it calls in this file; None where there is little, or nobody can see it."""
    start: ast.AST | None = function
    if isinstance(function, (ast.Name, ast.Attribute)):
        name = function.id if isinstance(function, ast.Name) else function.attr
        start = finding.defined(source, name, near)
    if not isinstance(start, (ast.Lambda, ast.FunctionDef)):
        return None
    parts = source.called(start)
    calls = [n for one in parts for n in ast.walk(one) if isinstance(n, ast.Call)]
    python = any(finding.called(c) in repeatable.CALLING_PYTHON for c in calls)
    ours = [c for c in calls if scopes.full(source, c.func).startswith(FRAMEWORKS)]
    for call in ours:
        if finding.called(call).startswith(WORKING):
            return Work(finding.called(call), python)
    return Work(f"{len(ours)} ops", python) if len(ours) >= SEVERAL else None
