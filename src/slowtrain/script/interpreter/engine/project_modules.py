"""Other files of the project: what a script imports from them, and which scripts import it.

A file is interpreted when one of its names is first looked up, so unreached files are not parsed.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Value, constant_value
from slowtrain.script.interpreter.domain.name_scope import Scope
from slowtrain.script.interpreter.domain.run_context import BudgetSpent
from slowtrain.script.interpreter.engine import branch_conditions
from slowtrain.script.navigation import call_index, imported_functions, importing_scripts
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

if TYPE_CHECKING:
    from slowtrain.script.interpreter.engine.interpreter import Interpreter

# A file that trains, or makes the data for it, has at least one of these calls.
TRAINING_CALLS = (
    "fit", "train_on_batch", "predict", "GradientTape", "apply_gradients", "minimize", "scatter_sub", "from_generator",
    "compile",
)  # fmt: skip
DATASET_MAKERS = ("Dataset", "ImageDataGenerator")  # a file that makes data sets for others has one of these
MAX_PROJECT_FILES = 12  # files of a project that are interpreted for one of them
RELEVANT_LIBRARIES = ("tensorflow", "keras", "numpy")  # a relevant file names at least one of them


def is_training_file(source: Source) -> bool:
    """Whether a file trains, or makes data sets that another file may train on. Most files do neither."""
    if call_index.index_of(source).called(*TRAINING_CALLS) or branch_conditions.starts_graph_program(source):
        return True
    return any(word in source.text for word in DATASET_MAKERS) and bool(importing_scripts.scripts_importing(source))


def run_script(machine: Interpreter) -> None:
    """Runs the whole script, then the functions and methods that it does not call itself.

    Those run as other scripts of the project call them, or else with unknown arguments.
    """
    source, scope = machine.main, machine.opened(Scope(source=machine.main))
    machine.modules[os.path.realpath(source.file)] = scope
    machine.block(source.tree.body, scope)
    every = (made.node for _, _, made in _module_functions(scope))
    if _mentions_training(source, [node for node in every if node is not None and node not in machine.ran]):
        for driver in importing_scripts.scripts_importing(source):
            _run_importing_script(machine, driver)
    traced = _called_in_graphs(scope)
    for kind, function, made in _module_functions(scope):
        if made.node in machine.ran or not branch_conditions.contains_loop(made.node):
            continue
        known = kind is not None and _mentions_training(source, [made.node] if made.node is not None else [])
        me = (
            [_unknown_instance(machine, kind) if known else Value("object", name=kind.name, of=kind)]
            if kind is not None
            else []
        )
        in_graph = made.node in traced or (kind is not None and operators.runs_in_keras_graph(kind, made))
        with machine.tracing() if in_graph else nullcontext():
            machine.call(function, CallArgs(made.node or source.tree, me))


def _module_functions(scope: Scope) -> list[tuple[Value | None, Value, Value]]:
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
    every = _module_functions(scope)
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
    called = [node.func for node in syntax_tree.walk(function) if isinstance(node, ast.Call)]
    own = (one for one in called if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name))
    methods = {one.attr for one in own if ast.unparse(one.value) == "self"}
    return methods | {one.id for one in called if isinstance(one, ast.Name)}


def _mentions_training(source: Source, functions: Iterable[ast.AST]) -> bool:
    """Whether the text of one of these functions trains or makes data sets."""
    lines = source.plain.split("\n")
    spans = ((getattr(one, "lineno", 1) - 1, getattr(one, "end_lineno", 0)) for one in functions)
    texts = ("\n".join(lines[first:last]) for first, last in spans)
    return any(word in text for text in texts for word in (*TRAINING_CALLS, *DATASET_MAKERS))


def _unknown_instance(machine: Interpreter, kind: Value) -> Value:
    """An object of a class that the script never instantiates, constructed with unknown arguments."""
    if kind not in machine.unmade:
        with machine.without_events():
            machine.unmade[kind] = machine.call(kind, CallArgs(kind.node or machine.main.tree))
    made = machine.unmade[kind]
    return Value("object", name=kind.name, of=kind, items=dict(made.items) if made.kind == "object" else {})


def imported_value(machine: Interpreter, written: str) -> Value | None:
    """The value of ``Agent`` or ``agents.Agent`` if another file of the project binds it."""
    key = machine.source, written
    if key not in machine.origins:
        found = imported_functions.name_origin(*key)
        scope = _imported_scope(machine, found[0]) if found is not None else None
        machine.origins[key] = (scope, found[1]) if scope is not None and found is not None else None
    origin = machine.origins[key]
    return origin[0].names.get(origin[1]) if origin is not None else None


def _run_importing_script(machine: Interpreter, driver: Source) -> None:
    """Runs a script of the project that uses the examined file."""
    file = os.path.realpath(driver.file)
    if file not in machine.modules:
        _run_module(machine, driver, machine.opened(Scope(source=driver)))


def _imported_scope(machine: Interpreter, source: Source) -> Scope | None:
    file = os.path.realpath(source.file)
    if file in machine.modules:
        return machine.modules[file]
    several = len(machine.modules) >= MAX_PROJECT_FILES
    if several or not any(name in source.text for name in RELEVANT_LIBRARIES):
        return None
    named = os.path.basename(file).partition(".")[0]
    scope = machine.opened(Scope(names={"__name__": constant_value(named)}, source=source))
    _run_module(machine, source, scope)
    return scope


def _run_module(machine: Interpreter, source: Source, scope: Scope) -> None:
    machine.modules[os.path.realpath(source.file)] = scope
    with machine.apart(), machine.in_file_of(scope), suppress(BudgetSpent, SyntaxError):
        machine.block(source.tree.body, scope)
