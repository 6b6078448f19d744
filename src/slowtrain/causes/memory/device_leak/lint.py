"""Where the cause memory/device-leak shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import call_index, class_members, node_lookup
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Results of fit() that a loop over models keeps."""
    for statement, iterations in find_kept_histories(source):
        often = f"each of {iterations}" if iterations is not None else "each"
        says = f"a History holds its model: the weights of {often} that this loop trains stay in memory"
        cure = "keep history.history; let go of the model, and call keras.backend.clear_session() in each iteration"
        yield spots.node_spot(statement, says, Prescription("advice", Effect.EXACT, cure))


def find_kept_histories(source: Source) -> Iterator[tuple[ast.stmt, int | None]]:
    """Statements that keep the ``History`` of each iteration of a long loop over models, with its length if known."""
    fits = [e for e in file_events(source) if e.name == ".fit" and e.on is not None and e.on.born]
    if not fits or _uses_model_of_object(source):
        return
    every = [
        (owner, given, list(interpreter.value_at(source, given).nested_values()))
        for owner, given in _stored_values(source)
    ]
    kept_histories = {id(one.node) for _, _, value in every for one in value if one.kind in ("keras", "object")}
    for owner, given, value in every:
        histories = [one for one in value if one.name == "History" and one.of is not None]
        fitted = next((e for one in histories for e in fits if e.on is one.of), None)
        if fitted is None or fitted.on is None or id(fitted.on.node) in kept_histories:
            continue  # the models are kept as well, so that their histories add nothing
        where, container = node_lookup.enclosing_statement(source, given), interpreter.value_at(source, owner)
        loops = _model_loops(fitted, container)
        known = [_iteration_count(source, one) for one in loops]
        few = prod(one for one in known if one is not None) <= queries.MAX_FEW_TURNS
        if where is not None and loops and not (few and None not in known):
            yield where, prod(one or 1 for one in known) if None not in known else None


def _stored_values(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Lists and mappings, each with a value that is put into it."""
    for call in call_index.index_of(source).calls_of("append"):
        if isinstance(call.func, ast.Attribute) and len(call.args) == 1:
            yield call.func.value, call.args[0]
    for one in call_index.nodes_of_kind(source, ast.Assign):
        target = one.targets[0] if isinstance(one, ast.Assign) else None
        if isinstance(one, ast.Assign) and isinstance(target, ast.Subscript):
            yield target.value, one.value


def _model_loops(fitted: Event, container: Value) -> list[Loop]:
    """The loops that make a model in each iteration and end before its container does."""
    made = fitted.on.born if fitted.on is not None else ()
    known = container.kind in ("list", "dict")
    return [one for one in fitted.loops if known and one.number in made and one.number not in container.born]


def _iteration_count(source: Source, loop: Loop) -> int | None:
    """The number of iterations; folds of a cross-validation count as few."""
    over = loop.node.iter if isinstance(loop.node, (ast.For, ast.comprehension)) else None
    while (
        isinstance(over, ast.Call)
        and node_lookup.called_name(over) in ("enumerate", "tqdm", "list", "zip")
        and over.args
    ):
        over = over.args[0]
    if isinstance(over, ast.Name) and loop.turns is None:
        made = interpreter.producing_expression(source, interpreter.value_at(source, over))
        over = made if made is not None else over
    folds = isinstance(over, ast.Call) and node_lookup.called_name(over) == "split"
    return queries.MAX_FEW_TURNS if folds and loop.turns is None else loop.turns


def _uses_model_of_object(source: Source) -> bool:
    """Whether the file uses or removes an object's model: ``best.model.save(…)``, ``history.model = None``."""
    found = (
        n for n in call_index.nodes_of_kind(source, ast.Attribute) if isinstance(n, ast.Attribute) and n.attr == "model"
    )
    return any(not class_members.is_self_attribute(n) for n in found)
