"""Other files of the project: what a script imports from them, and which scripts import it.

A file is interpreted when one of its names is first looked up, so unreached files are not parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Value, constant_value, join_values
from slowtrain.script.interpreter.domain.run_context import BudgetSpent, RunContext, Scope
from slowtrain.script.interpreter.engine import statement_rules
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.navigation import call_index, project_files, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

# A file that trains, or makes the data for it, has at least one of these calls.
TRAINING_CALLS = (
    "fit", "train_on_batch", "predict", "GradientTape", "apply_gradients", "minimize", "scatter_sub", "from_generator",
    "compile",
)  # fmt: skip
DATASET_MAKERS = ("Dataset", "ImageDataGenerator")  # a file that makes data sets for others has one of these
MAX_TOP_LEVEL_NODES = 10_000  # statements and expressions of a file that does not train
MAX_UNREACHED_NODES = 5_000  # statements and expressions of one function that the run does not reach
MAX_PROJECT_FILES = 12  # files of a project that are interpreted for one of them
RELEVANT_LIBRARIES = ("tensorflow", "keras", "numpy")  # a relevant file names at least one of them


def is_training_file(source: Source) -> bool:
    """Whether a file trains, or makes data sets that another file may train on. Most files do neither."""
    if call_index.index_of(source).calls_of(*TRAINING_CALLS) or statement_rules.starts_graph_program(source):
        return True
    if "Callback" in source.text and not source.words.isdisjoint(user_callbacks.BATCH_HOOKS):
        return True
    return any(word in source.text for word in DATASET_MAKERS) and bool(project_files.scripts_importing(source))


def run_script(machine: RunContext) -> None:
    """Runs the whole script, then the functions and methods that it does not call itself.

    Those run as other scripts of the project call them, or else with unknown arguments.
    """
    source, scope = machine.main, machine.register_scope(Scope(source=machine.main))
    machine.modules[source.real_path] = scope
    machine.block(source.tree.body, scope)
    _run_unused_callbacks(machine, scope)
    every = (own.node for _, _, own in _module_functions(scope))
    if _mentions_training(source, [node for node in every if node is not None and node not in machine.ran]):
        for driver in project_files.scripts_importing(source):
            _run_importing_script(machine, driver)
    traced = _called_in_graphs(scope)
    for kind, function, own in _module_functions(scope):
        if own.node in machine.ran:
            continue
        trains = own.node is not None and _mentions_training(source, [own.node])
        if not (trains or statement_rules.contains_loop(own.node)):
            continue
        known = kind is not None and trains
        me = (
            [_unknown_instance(machine, kind) if known else Value("object", name=kind.name, of=kind)]
            if kind is not None
            else []
        )
        in_graph = own.node in traced or (kind is not None and operators.runs_in_keras_graph(kind, own))
        with machine.tracing() if in_graph else nullcontext():
            machine.call(function, CallArgs(own.node or source.tree, me))


def _module_functions(scope: Scope) -> list[tuple[Value | None, Value, Value]]:
    """The functions and methods of a module: the class, the value under the name, and the function itself."""
    found: list[tuple[Value | None, Value, Value]] = []
    for one in list(scope.names.values()):
        kind = one if one.kind == "class" else None
        for function in list(one.items.values()) if kind is not None else [one]:
            own = function.of if function.kind == "graph" else function
            if own is not None and own.kind == "function":
                found.append((kind, function, own))
    return found


def _called_in_graphs(scope: Scope) -> set[ast.AST]:
    """The functions that the module's tf.functions call, directly or not, and that no other function of it calls."""
    every = _module_functions(scope)
    if not any(function.kind == "graph" for _, function, _ in every):
        return set()
    calls = {own.node: _called_names(own.node) for _, _, own in every if own.node is not None}
    graphs = {own.node for _, function, own in every if function.kind == "graph" and own.node is not None}
    traced = set(graphs)
    while True:
        outside = set[str]().union(*(names for node, names in calls.items() if node not in traced))
        inside = set[str]().union(*(names for node, names in calls.items() if node in traced)) - outside
        more = {own.node for _, _, own in every if own.node is not None and own.name in inside} - traced
        if not more:
            return traced - graphs
        traced |= more


def _called_names(function: ast.AST) -> set[str]:
    """``step`` of ``step(x)`` and of ``self.step(x)``."""
    called = [call.func for call in syntax_tree.nodes_inside(function, ast.Call)]
    own = (one for one in called if isinstance(one, ast.Attribute))
    methods = {one.attr for one in own if scope_names.is_name(one.value, "self")}
    return methods | {one.id for one in called if isinstance(one, ast.Name)}


@cache_recent(4)
def _plain_lines(source: Source) -> list[str]:
    return source.plain.split("\n")


def _mentions_training(source: Source, functions: Iterable[ast.AST]) -> bool:
    """Whether the text of one of these functions trains or makes data sets."""
    lines = _plain_lines(source)
    spans = ((getattr(one, "lineno", 1) - 1, getattr(one, "end_lineno", 0)) for one in functions)
    texts = ("\n".join(lines[first:last]) for first, last in spans)
    return any(word in text for text in texts for word in (*TRAINING_CALLS, *DATASET_MAKERS))


def _unknown_instance(machine: RunContext, kind: Value) -> Value:
    """An object of a class that the script never instantiates, constructed with unknown arguments."""
    if kind not in machine.unmade:
        with machine.without_events():
            machine.unmade[kind] = machine.call(kind, CallArgs(kind.node or machine.main.tree))
    instance = machine.unmade[kind]
    return Value("object", name=kind.name, of=kind, items=dict(instance.items) if instance.kind == "object" else {})


def run_top_level(machine: RunContext) -> None:
    """Runs the statements of a file that does not train, for the values of their names; records no events."""
    if machine.modules:
        return
    scope = machine.register_scope(Scope(source=machine.main))
    machine.modules[machine.main.real_path] = scope
    machine.left = MAX_TOP_LEVEL_NODES
    with suppress(BudgetSpent, RecursionError):
        machine.block(machine.main.tree.body, scope)
    machine.events = []


def run_unreached(machine: RunContext, function: ast.AST) -> None:
    """Runs a function that the run did not reach, with unknown arguments; records the values in it, and no events."""
    scope = machine.modules.get(machine.main.real_path)
    if function in machine.ran or scope is None:
        return
    machine.ran.add(function)
    machine.left = max(machine.left, MAX_UNREACHED_NODES)
    events, machine.events = machine.events, []
    for kind, value, own in _module_functions(scope):
        if own.node is function:
            me = [_any_instance(machine, kind)] if kind is not None else []
            with suppress(BudgetSpent, RecursionError):
                machine.call(value, CallArgs(function, me))
    machine.events = events


def _any_instance(machine: RunContext, kind: Value) -> Value:
    """An object that stands for all of its class and its subclasses: the join of those that the run makes."""
    instances = [
        one for several in machine.made.values() for one in several if one.of and kind in _base_classes(one.of)
    ]
    if not instances:
        return _unknown_instance(machine, kind)
    items = {n: join_values(one.items[n] for one in instances if n in one.items) for n in instances[0].items}
    return Value("object", name=kind.name, of=kind, items=items)


def _base_classes(kind: Value, depth: int = 6) -> list[Value]:
    """A class and those that it is derived from."""
    bases = kind.data if depth and kind.kind == "class" else []
    return [kind, *(one for base in bases for one in _base_classes(base, depth - 1))]


def imported_value(machine: RunContext, written: str) -> Value | None:
    """The value of ``Agent`` or ``agents.Agent`` if another file of the project binds it."""
    key = machine.source, written
    if key not in machine.origins:
        found = project_files.name_origin(*key)
        scope = _imported_scope(machine, found[0]) if found is not None else None
        machine.origins[key] = (scope, found[1]) if scope is not None and found is not None else None
    origin = machine.origins[key]
    return origin[0].names.get(origin[1]) if origin is not None else None


def _run_importing_script(machine: RunContext, driver: Source) -> None:
    """Runs a script of the project that uses the examined file."""
    if driver.real_path not in machine.modules:
        _run_module(machine, driver, machine.register_scope(Scope(source=driver)))


def _imported_scope(machine: RunContext, source: Source) -> Scope | None:
    if source.real_path in machine.modules:
        return machine.modules[source.real_path]
    several = len(machine.modules) >= MAX_PROJECT_FILES
    if several or not any(name in source.text for name in RELEVANT_LIBRARIES):
        return None
    named = Path(source.real_path).name.partition(".")[0]
    scope = machine.register_scope(Scope(names={"__name__": constant_value(named)}, source=source))
    _run_module(machine, source, scope)
    return scope


def _run_module(machine: RunContext, source: Source, scope: Scope) -> None:
    machine.modules[source.real_path] = scope
    with machine.first_import(), machine.in_file_of(scope), suppress(BudgetSpent, SyntaxError):
        machine.block(source.tree.body, scope)


def _run_unused_callbacks(machine: RunContext, scope: Scope) -> None:
    """Runs the callbacks of the file that no ``fit`` runs, as the ``fit`` of another script would."""
    for value in list(scope.names.values()):
        if value.name != user_callbacks.LAMBDA_CALLBACK and value.kind != "class":
            continue
        hooks = [value.items[name] for name in user_callbacks.BATCH_HOOKS if name in value.items]
        if not hooks or any(hook.node in machine.ran for hook in hooks):
            continue
        callback = _unknown_instance(machine, value) if value.kind == "class" else value
        place = ast.copy_location(ast.Call(ast.Name("fit", ast.Load()), [], []), value.node or machine.main.tree)
        user_callbacks.run_unknown_fit(machine, callback, place)
