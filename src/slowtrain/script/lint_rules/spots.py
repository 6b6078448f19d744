"""Findings of rules, before they have a cure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.text import edits

MIN_CONVERTED_NUMBERS = 16_384  # numbers (64 KB). Fewer are copied in about 20 µs.


@dataclass(frozen=True)
class HandwrittenOp:
    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    cure: str
    changed: tuple[Edit, ...]


@dataclass(frozen=True)
class HandFedBatch:
    node: ast.expr
    says: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class StepCopy:
    node: ast.expr
    says: str
    cure: str


def copies_not_known(known: Iterable[ast.AST], found: Iterable[StepCopy]) -> Iterator[StepCopy]:
    """Yield findings outside the spans of ``known`` and of each other."""
    lines = [(edits.node_start(one), edits.node_end(one)) for one in known]  # type: ignore[arg-type]
    for one in found:
        if not any(low <= edits.node_start(one.node) <= high for low, high in lines):
            lines.append((edits.node_start(one.node), edits.node_end(one.node)))
            yield one
