"""Batches of one size: without the smaller one at the end."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.reading import finding

DROP_AT = {"batch": 1, "padded_batch": 3}  # drop_remainder among the positional arguments


def without_remainder(source: Source, line: int) -> list[Edit]:
    """``.batch(n)`` at ``line`` with ``drop_remainder=True``."""
    call = finding.only(source, line, *DROP_AT)
    if call is None or not isinstance(call.func, ast.Attribute) or any(k.arg is None for k in call.keywords):
        return []
    given = finding.keyword(call, "drop_remainder", DROP_AT[finding.called(call)])
    if given is None:
        return [edits.keyword(source, call, "drop_remainder", "True")]
    if isinstance(given, ast.Constant) and given.value is False:
        return [edits.replace(source, given, "True")]
    return []
