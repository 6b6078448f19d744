"""Models compiled anew, and built anew, by functions that a loop calls though nothing asks for another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, following, index, kinds, objects, scopes, visible

LEAST_BUILDS = 3  # training in two stages (frozen, then unfrozen) compiles twice and must


def for_a_rate(source: Source) -> Iterator[ast.Call]:
    """``self.model.compile(Adam(rate), …)`` by a method that each turn of a loop calls beside ``fit``."""
    for call in index.of(source).called("compile") if "fit" in source.text else ():
        function = finding.function(source, call)
        owner = scopes.dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if function is None or scopes.loops(source, call) or not _lasting(source, owner):
            continue
        rest = [*call.args[1:], *(k.value for k in call.keywords if k.arg != "optimizer")]
        if scopes.read(rest) & set(scopes.parameters(function)) - {"self"} or objects.stores(source, "trainable"):
            continue
        for loop, inside in following.repeated_by(source, call):
            if _many(source, loop) and _fits_once(source, loop, owner, inside):
                yield call
                break


def _lasting(source: Source, owner: str) -> bool:
    """Whether it is an attribute that the constructor alone sets."""
    if not owner.startswith("self.") or owner.count(".") != 1:
        return False
    made = [finding.function(source, s) for s in objects.stores(source, owner.partition(".")[2])]
    return bool(made) and all(f is not None and f.name == "__init__" for f in made)


def _many(source: Source, loop: ast.AST) -> bool:
    turns = visible.turns(source, loop)
    return not visible.written_out(loop) and (turns is None or turns >= LEAST_BUILDS)


def _fits_once(source: Source, loop: ast.AST, owner: str, inside: ast.stmt) -> bool:
    """Whether the loop trains the same model for an epoch in each turn: by itself, or in what calls ``compile``."""
    parts = [n for one in (loop, *source.called(inside)[1:]) for n in trees.walk(one)]
    for call in (n for n in parts if isinstance(n, ast.Call) and finding.called(n) == "fit"):
        epochs = finding.keyword(call, "epochs", 3)
        same = isinstance(call.func, ast.Attribute) and scopes.dotted(call.func.value) == owner
        if same and (epochs is None or visible.number(source, epochs) == 1):
            return True
    return False


def with_weights_set(source: Source) -> Iterator[ast.Call]:
    """A model that each call of a function makes, compiles and trains, and whose weights it sets before that."""
    for call in index.of(source).called("set_weights"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        statement = finding.statement(source, call)
        if not isinstance(owner, ast.Name) or not isinstance(statement, ast.Expr):
            continue
        block = scopes.block(source, statement)
        made = [s for s in block if isinstance(s, ast.Assign) and scopes.bound(s) == {owner.id}]
        compiled = _on(source, owner.id, "compile", block)
        if len(made) != 1 or not isinstance(made[0].value, ast.Call) or not compiled:
            continue
        if not _on(source, owner.id, "fit", block) or made[0].lineno > compiled[0].lineno:
            continue
        if _same_each_turn(source, [made[0].value, *compiled]):
            yield compiled[0]


def _on(source: Source, owner: str, name: str, block: Sequence[ast.stmt]) -> list[ast.Call]:
    calls = [c for c in index.of(source).called(name) if isinstance(c.func, ast.Attribute)]
    calls = [c for c in calls if scopes.dotted(c.func.value) == owner]  # type: ignore[attr-defined]
    return [c for c in calls if finding.statement(source, c) in block]


def _same_each_turn(source: Source, calls: Sequence[ast.Call]) -> bool:
    """Whether a loop repeats them, and what they are given is the same in each turn."""
    if visible.repeated(source, calls[0], LEAST_BUILDS) is None:
        return False
    given = [a for c in calls for a in (*c.args, *(k.value for k in c.keywords))]
    names = scopes.read(given)
    if any(names & scopes.bound(loop) for loop in visible.around(source, calls[0])):
        return False
    function = finding.function(source, calls[0])
    return function is None or not any(_moved(source, function, n) for n in names & set(scopes.parameters(function)))


def _moved(source: Source, function: objects.Function, name: str) -> bool:
    """Whether a loop around a call of the function may change what it gives for a parameter."""
    for call in kinds.calls_of(source, function):
        given = kinds.given_in(function, call, name)
        bound = {n for loop in visible.around(source, call) for n in scopes.bound(loop)}
        if given is None or scopes.read(given) & bound:
            return True
    return False
