"""Models compiled anew, and built anew, by functions that a loop calls though nothing asks for another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from slowtrain.script.evaluators import call_targets, literal_sizes, value_kinds
from slowtrain.script.navigation import call_index, class_members, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

LEAST_BUILDS = 3  # training in two stages (frozen, then unfrozen) compiles twice and must


def for_a_rate(source: Source) -> Iterator[ast.Call]:
    """``self.model.compile(Adam(rate), …)`` by a method that each turn of a loop calls beside ``fit``."""
    for call in call_index.index_of(source).called("compile") if "fit" in source.text else ():
        function = node_lookup.enclosing_function(source, call)
        owner = scope_names.dotted_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if function is None or scope_names.enclosing_loops(source, call) or not _lasting(source, owner):
            continue
        rest = [*call.args[1:], *(k.value for k in call.keywords if k.arg != "optimizer")]
        if scope_names.read_names(rest) & set(scope_names.parameter_names(function)) - {
            "self"
        } or class_members.attribute_stores(source, "trainable"):
            continue
        for loop, inside in call_targets.loops_running(source, call):
            if _many(source, loop) and _fits_once(source, loop, owner, inside):
                yield call
                break


def _lasting(source: Source, owner: str) -> bool:
    """Whether it is an attribute that the constructor alone sets."""
    if not owner.startswith("self.") or owner.count(".") != 1:
        return False
    made = [
        node_lookup.enclosing_function(source, s)
        for s in class_members.attribute_stores(source, owner.partition(".")[2])
    ]
    return bool(made) and all(f is not None and f.name == "__init__" for f in made)


def _many(source: Source, loop: ast.AST) -> bool:
    turns = literal_sizes.loop_turns(source, loop)
    return not literal_sizes.is_literal_loop(loop) and (turns is None or turns >= LEAST_BUILDS)


def _fits_once(source: Source, loop: ast.AST, owner: str, inside: ast.stmt) -> bool:
    """Whether the loop trains the same model for an epoch in each turn: by itself, or in what calls ``compile``."""
    parts = [n for one in (loop, *source.called(inside)[1:]) for n in syntax_tree.walk(one)]
    for call in (n for n in parts if isinstance(n, ast.Call) and node_lookup.called_name(n) == "fit"):
        epochs = node_lookup.argument_value(call, "epochs", 3)
        same = isinstance(call.func, ast.Attribute) and scope_names.dotted_name(call.func.value) == owner
        if same and (epochs is None or literal_sizes.literal_int(source, epochs) == 1):
            return True
    return False


def with_weights_set(source: Source) -> Iterator[ast.Call]:
    """A model that each call of a function makes, compiles and trains, and whose weights it sets before that."""
    for call in call_index.index_of(source).called("set_weights"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        statement = node_lookup.enclosing_statement(source, call)
        if not isinstance(owner, ast.Name) or not isinstance(statement, ast.Expr):
            continue
        block = scope_names.statement_block(source, statement)
        made = [s for s in block if isinstance(s, ast.Assign) and scope_names.bound_names(s) == {owner.id}]
        compiled = _on(source, owner.id, "compile", block)
        if len(made) != 1 or not isinstance(made[0].value, ast.Call) or not compiled:
            continue
        if not _on(source, owner.id, "fit", block) or made[0].lineno > compiled[0].lineno:
            continue
        if _same_each_turn(source, [made[0].value, *compiled]):
            yield compiled[0]


def _on(source: Source, owner: str, name: str, block: Sequence[ast.stmt]) -> list[ast.Call]:
    calls = [c for c in call_index.index_of(source).called(name) if isinstance(c.func, ast.Attribute)]
    calls = [c for c in calls if scope_names.dotted_name(c.func.value) == owner]  # type: ignore[attr-defined]
    return [c for c in calls if node_lookup.enclosing_statement(source, c) in block]


def _same_each_turn(source: Source, calls: Sequence[ast.Call]) -> bool:
    """Whether a loop repeats them, and what they are given is the same in each turn."""
    if literal_sizes.repeating_loop(source, calls[0], LEAST_BUILDS) is None:
        return False
    given = [a for c in calls for a in (*c.args, *(k.value for k in c.keywords))]
    names = scope_names.read_names(given)
    if any(names & scope_names.bound_names(loop) for loop in literal_sizes.enclosing_loops(source, calls[0])):
        return False
    function = node_lookup.enclosing_function(source, calls[0])
    return function is None or not any(
        _moved(source, function, n) for n in names & set(scope_names.parameter_names(function))
    )


def _moved(source: Source, function: class_members.Function, name: str) -> bool:
    """Whether a loop around a call of the function may change what it gives for a parameter."""
    for call in value_kinds.function_calls(source, function):
        given = value_kinds.argument_in(function, call, name)
        bound = {n for loop in literal_sizes.enclosing_loops(source, call) for n in scope_names.bound_names(loop)}
        if given is None or scope_names.read_names(given) & bound:
            return True
    return False
