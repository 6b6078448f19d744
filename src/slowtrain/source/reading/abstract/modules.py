"""Other files of the project: what a script imports from them, and which scripts import it.

A file is interpreted when one of its names is first looked up, so unreached files are not parsed.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from slowtrain.source import Source, trees
from slowtrain.source.reading import callers, elsewhere, index
from slowtrain.source.reading.abstract import conditions, things
from slowtrain.source.reading.abstract.names import Scope
from slowtrain.source.reading.abstract.standing import Spent
from slowtrain.source.reading.abstract.values import Given, Value, constant

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

# A file that trains, or makes the data for it, has at least one of these calls.
TRAINING = (
    "fit", "train_on_batch", "predict", "GradientTape", "apply_gradients", "minimize", "scatter_sub", "from_generator",
    "compile",
)  # fmt: skip
MAKING = ("Dataset", "ImageDataGenerator")  # a file that makes data sets for others has one of these
MOST_FILES = 12  # files of a project that are interpreted for one of them
LIBRARIES = ("tensorflow", "keras", "numpy")  # a relevant file names at least one of them


def matters(source: Source) -> bool:
    """Whether a file trains, or makes data sets that another file may train on. Most files do neither."""
    if index.of(source).called(*TRAINING) or conditions.begins(source):
        return True
    return any(word in source.text for word in MAKING) and bool(callers.of(source))


def whole(machine: Machine) -> None:
    """Runs the whole script, then the functions and methods that it does not call itself.

    Those run as other scripts of the project call them, or else with unknown arguments.
    """
    source, scope = machine.main, machine.opened(Scope(source=machine.main))
    machine.modules[os.path.realpath(source.file)] = scope
    machine.block(source.tree.body, scope)
    every = (made.node for _, _, made in _functions(scope))
    if _works(source, [node for node in every if node is not None and node not in machine.ran]):
        for driver in callers.of(source):
            _drive(machine, driver)
    traced = _called_in_graphs(scope)
    for kind, function, made in _functions(scope):
        if made.node in machine.ran or not conditions.goes_through(made.node):
            continue
        known = kind is not None and _works(source, [made.node] if made.node is not None else [])
        me = [_unmade(machine, kind) if known else Value("object", name=kind.name, of=kind)] if kind is not None else []
        in_graph = made.node in traced or (kind is not None and things.called_by_keras(kind, made))
        with machine.tracing() if in_graph else nullcontext():
            machine.call(function, Given(made.node or source.tree, me))


def _functions(scope: Scope) -> list[tuple[Value | None, Value, Value]]:
    """The functions and methods of a module: the class, the value under the name, and the function itself."""
    found: list[tuple[Value | None, Value, Value]] = []
    for one in list(scope.names.values()):
        kind = one if one.kind == "class" else None
        for function in list(one.items.values()) if kind is not None else [one]:
            made = function.of if function.kind == "graph" else function
            if made is not None and made.kind == "function":
                found.append((kind, function, made))
    return found


def _called_in_graphs(scope: Scope) -> set[ast.AST]:
    """The functions that the module's tf.functions call, directly or not, and that no other function of it calls."""
    every = _functions(scope)
    calls = {made.node: _called_names(made.node) for _, _, made in every if made.node is not None}
    graphs = {made.node for _, function, made in every if function.kind == "graph" and made.node is not None}
    traced = set(graphs)
    while True:
        outside = set[str]().union(*(names for node, names in calls.items() if node not in traced))
        inside = set[str]().union(*(names for node, names in calls.items() if node in traced)) - outside
        more = {made.node for _, _, made in every if made.node is not None and made.name in inside} - traced
        if not more:
            return traced - graphs
        traced |= more


def _called_names(function: ast.AST) -> set[str]:
    """``step`` of ``step(x)`` and of ``self.step(x)``."""
    called = [node.func for node in trees.walk(function) if isinstance(node, ast.Call)]
    own = (one for one in called if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name))
    methods = {one.attr for one in own if ast.unparse(one.value) == "self"}
    return methods | {one.id for one in called if isinstance(one, ast.Name)}


def _works(source: Source, functions: Iterable[ast.AST]) -> bool:
    """Whether the text of one of these functions trains or makes data sets."""
    lines = source.plain.split("\n")
    spans = ((getattr(one, "lineno", 1) - 1, getattr(one, "end_lineno", 0)) for one in functions)
    texts = ("\n".join(lines[first:last]) for first, last in spans)
    return any(word in text for text in texts for word in (*TRAINING, *MAKING))


def _unmade(machine: Machine, kind: Value) -> Value:
    """An object of a class that the script never instantiates, constructed with unknown arguments."""
    if kind not in machine.unmade:
        with machine.unseen():
            machine.unmade[kind] = machine.call(kind, Given(kind.node or machine.main.tree))
    made = machine.unmade[kind]
    return Value("object", name=kind.name, of=kind, items=dict(made.items) if made.kind == "object" else {})


def imported(machine: Machine, written: str) -> Value | None:
    """The value of ``Agent`` or ``agents.Agent`` if another file of the project binds it."""
    key = machine.source, written
    if key not in machine.origins:
        found = elsewhere.origin(*key)
        scope = _entered(machine, found[0]) if found is not None else None
        machine.origins[key] = (scope, found[1]) if scope is not None and found is not None else None
    origin = machine.origins[key]
    return origin[0].names.get(origin[1]) if origin is not None else None


def _drive(machine: Machine, driver: Source) -> None:
    """Runs a script of the project that uses the examined file."""
    file = os.path.realpath(driver.file)
    if file not in machine.modules:
        _run(machine, driver, machine.opened(Scope(source=driver)))


def _entered(machine: Machine, source: Source) -> Scope | None:
    file = os.path.realpath(source.file)
    if file in machine.modules:
        return machine.modules[file]
    several = len(machine.modules) >= MOST_FILES
    if several or not any(name in source.text for name in LIBRARIES):
        return None
    named = os.path.basename(file).partition(".")[0]
    scope = machine.opened(Scope(names={"__name__": constant(named)}, source=source))
    _run(machine, source, scope)
    return scope


def _run(machine: Machine, source: Source, scope: Scope) -> None:
    machine.modules[os.path.realpath(source.file)] = scope
    with machine.apart(), machine.reading(scope), suppress(Spent, SyntaxError):
        machine.block(source.tree.body, scope)
