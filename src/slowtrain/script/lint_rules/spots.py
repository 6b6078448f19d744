"""Spots at nodes of a script, which the rules of all causes return."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Prescription, Spot
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits


def node_spot(node: ast.expr | ast.stmt, says: str, cure: Prescription, worth_if: str | None = None) -> Spot:
    """A spot from the beginning of a node to its end; of a loop, to the end of its first line."""
    last = node.iter if isinstance(node, ast.For) else node
    return Spot(edits.node_start(node), edits.node_end(last), says, cure, worth_if=worth_if)


def operation_spot(node: ast.expr | ast.stmt, says: str, cure: Prescription, worth_if: str | None = None) -> Spot:
    """A spot from the name of the called method to the end of its call; of another node, of all of it."""
    if isinstance(node, ast.Call):
        return Spot(*call_index.operation_range(node), says, cure, worth_if=worth_if)
    return node_spot(node, says, cure, worth_if)


def spots_outside(known: Iterable[Spot | ast.expr | ast.stmt], found: Iterable[Spot]) -> Iterator[Spot]:
    """The spots that begin outside all of ``known`` and of each other."""
    ranges = [
        (one.start, one.end) if isinstance(one, Spot) else (edits.node_start(one), edits.node_end(one)) for one in known
    ]
    for spot in found:
        if not any(start <= spot.start <= end for start, end in ranges):
            ranges.append((spot.start, spot.end))
            yield spot


def distinct_spots(found: Iterable[Spot]) -> Iterable[Spot]:
    """The first spot of each place."""
    by_place: dict[object, Spot] = {}
    for spot in found:
        by_place.setdefault((spot.start, spot.end), spot)
    return by_place.values()
