"""Code of the examined file that nothing in the project calls, and how it is run.

Code whose text proves its use runs as that use would run it: callbacks and Python input as ``fit`` does, an agent in a
loop of steps. A script that trains shows what it uses, so the rest of it counts as unused. All other code runs once,
with unknown arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import nullcontext

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, CallArgs, Value, join_values
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.interpreter.engine import statement_rules
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.navigation import assumed_uses, project_files, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

# A file that trains, or makes the data for it, has at least one of these calls.
TRAINING_CALLS = (
    "fit", "train_on_batch", "predict", "GradientTape", "apply_gradients", "minimize", "scatter_sub", "from_generator",
    "compile", "flow_from_directory", "flow_from_dataframe",
)  # fmt: skip
DATASET_MAKERS = ("Dataset", "ImageDataGenerator")  # a file that makes data sets for others has one of these
TRAINING_EVENTS = frozenset({".fit", ".fit_generator", ".train_on_batch", ".apply_gradients", ".minimize"})
ASSUMED_STEPS = 1000  # turns of an agent's loop of steps: as many as any rule asks for
ModuleFunction = tuple[Value | None, Value, Value]  # its class, the value under the name, and the function itself


def may_run_elsewhere(machine: RunContext, scope: Scope) -> bool:
    """Whether the script leaves a function or class uncalled that other scripts may train with."""
    left = [own.node for _, _, own in module_functions(scope) if own.node is not None and own.node not in machine.ran]
    if _mentions_training(machine.main, left):
        return True
    return assumed_uses.may_feed_fit(machine.main) and bool(
        _unread_sequences(machine, scope) or _unread_generators(machine, scope)
    )


def run_uncalled(machine: RunContext, scope: Scope) -> None:
    """Runs the functions and methods of the module that have not run yet."""
    trains = any(event.name in TRAINING_EVENTS for event in machine.events)
    every = module_functions(scope)
    left = any(own.node not in machine.ran for _, _, own in every)
    traced = _called_in_graphs(scope) if left or not trains else set[ast.AST]()
    for one in every:
        if one[0] is None:
            _run_once(machine, one, traced)
    _run_input(machine, scope, trains=trains)
    for kind in [one for one in scope.names.values() if one.kind == "class"] if not trains else ():
        _run_agent(machine, kind, traced)
    for one in every:
        if one[0] is not None:
            _run_once(machine, one, traced)


def _run_once(machine: RunContext, one: ModuleFunction, traced: set[ast.AST]) -> None:
    """Runs a function that trains or loops, with unknown arguments."""
    kind, _, own = one
    if own.node is None or own.node in machine.ran:
        return
    trains = _mentions_training(machine.main, [own.node])
    if trains or statement_rules.contains_loop(own.node):
        me = Value("object", name=kind.name, of=kind) if kind is not None else None
        _call(machine, one, unknown_instance(machine, kind) if kind is not None and trains else me, traced)


def _call(machine: RunContext, one: ModuleFunction, me: Value | None, traced: set[ast.AST]) -> None:
    kind, function, own = one
    in_graph = own.node in traced or (kind is not None and operators.runs_in_keras_graph(kind, own))
    with machine.tracing() if in_graph else nullcontext():
        machine.call(function, CallArgs(own.node or machine.main.tree, [me] if me is not None else []))


def run_unused_callbacks(machine: RunContext, scope: Scope) -> None:
    """Runs the callbacks of the file that no ``fit`` runs, as the ``fit`` of another script would."""
    for value in list(scope.names.values()):
        if value.name != user_callbacks.LAMBDA_CALLBACK and value.kind != "class":
            continue
        hooks = [value.items[name] for name in user_callbacks.BATCH_HOOKS if name in value.items]
        if not hooks or any(hook.node in machine.ran for hook in hooks):
            continue
        callback = unknown_instance(machine, value) if value.kind == "class" else value
        user_callbacks.run_unknown_fit(machine, callback, _fit_call(machine, value))


def _unread_sequences(machine: RunContext, scope: Scope) -> list[Value]:
    """The classes of the module that are sequences of inputs and targets for Keras, and that the run does not read."""
    found: list[Value] = []
    for kind in [one for one in scope.names.values() if one.kind == "class"]:
        getter = operators.find_attribute(kind, "__getitem__")
        node = _own_node(getter) if getter is not None else None
        if node is None or node in machine.producing or not _is_sequence_class(kind):
            continue
        if isinstance(kind.node, ast.ClassDef) and assumed_uses.gives_inputs_and_targets(machine.main, kind.node, node):
            found.append(kind)
    return found


def _is_sequence_class(kind: Value) -> bool:
    names = [one.name for one in base_classes(kind) if one.kind == "library" and one.name.startswith("keras.")]
    return any(name.rpartition(".")[2] in assumed_uses.SEQUENCE_CLASSES for name in names)


def _own_node(value: Value) -> ast.AST | None:
    return value.of.node if value.kind in ("method", "graph") and value.of is not None else value.node


def _unread_generators(machine: RunContext, scope: Scope) -> list[ModuleFunction]:
    """The endless generators of batches of the module that the run does not read."""
    return [
        one
        for one in module_functions(scope)
        if one[2].node not in machine.ran and assumed_uses.yields_batches_endlessly(one[2].node)
    ]


def _run_input(machine: RunContext, scope: Scope, *, trains: bool) -> None:
    """Runs sequences and endless generators that nothing reads as ``fit`` does.

    ``trains``: the run trains, so a sequence that it does not make is unused.
    """
    if not assumed_uses.may_feed_fit(machine.main):
        return
    if not all(map(assumed_uses.uses_no_workers, project_files.files_importing(machine.main))):
        return
    for kind in _unread_sequences(machine, scope):
        is_read_by_hand = trains and _own_node(kind.items.get("__getitem__", UNKNOWN)) in machine.ran
        if not trains or (_is_made(machine, kind) and not is_read_by_hand):
            user_callbacks.run_unknown_input(machine, any_instance(machine, kind), _fit_call(machine, kind))
    for kind_or_none, function, own in _unread_generators(machine, scope) if not trains else ():
        me = [unknown_instance(machine, kind_or_none)] if kind_or_none is not None else []
        batches = machine.call(function, CallArgs(own.node or machine.main.tree, me))
        if batches.kind == "generator":
            user_callbacks.run_unknown_input(machine, batches, _fit_call(machine, own))


def _is_made(machine: RunContext, kind: Value) -> bool:
    """Whether the run makes an object of a class, or of a class that is derived from it."""
    made = (one.of for several in machine.made.values() for one in several if one.of is not None)
    return any(kind in base_classes(one) for one in made)


def _is_called_elsewhere(machine: RunContext, kind: Value) -> bool:
    """Whether a file that imports this one calls a class by its name, although the run did not reach that."""
    files = project_files.files_importing(machine.main)
    return any(f"{kind.name}(" in one.text for one in files if kind.name in one.words)


def _fit_call(machine: RunContext, value: Value) -> ast.Call:
    """A call of ``fit`` at the place of a definition."""
    return ast.copy_location(ast.Call(ast.Name("fit", ast.Load()), [], []), value.node or machine.main.tree)


def _run_agent(machine: RunContext, kind: Value, traced: set[ast.AST]) -> None:
    """Runs the methods of an agent that nobody makes, which act and learn, in a loop of steps."""
    derived = any(one.name.startswith("keras.") for one in base_classes(kind))
    if derived or _is_made(machine, kind) or not isinstance(kind.node, ast.ClassDef):
        return
    names = assumed_uses.step_methods(machine.main, kind.node)
    methods = [one for one in _functions_under(kind) if one[2].name in names] if names else []
    if not methods or _is_called_elsewhere(machine, kind):
        return
    me = unknown_instance(machine, kind)
    node = ast.copy_location(ast.While(ast.Constant(True), [], []), kind.node)

    def turn(_: object) -> None:
        for one in methods:
            _call(machine, one, me, traced)

    machine.loop(node, ASSUMED_STEPS, UNKNOWN, turn, machine.register_scope(Scope(source=machine.main)))


def module_functions(scope: Scope) -> list[ModuleFunction]:
    """The functions and methods of a module."""
    return [found for one in list(scope.names.values()) for found in _functions_under(one)]


def _functions_under(value: Value) -> list[ModuleFunction]:
    """The methods of a class, or the function itself."""
    kind = value if value.kind == "class" else None
    found: list[ModuleFunction] = []
    for function in list(value.items.values()) if kind is not None else [value]:
        own = function.of if function.kind == "graph" else function
        if own is not None and own.kind == "function":
            found.append((kind, function, own))
    return found


def _called_in_graphs(scope: Scope) -> set[ast.AST]:
    """The functions that the module's tf.functions call, directly or not, and that no other function of it calls."""
    every = module_functions(scope)
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


def unknown_instance(machine: RunContext, kind: Value) -> Value:
    """An object of a class that the script never instantiates, constructed with unknown arguments."""
    if kind not in machine.unmade:
        with machine.without_events():
            machine.unmade[kind] = machine.call(kind, CallArgs(kind.node or machine.main.tree))
    instance = machine.unmade[kind]
    return Value("object", name=kind.name, of=kind, items=dict(instance.items) if instance.kind == "object" else {})


def any_instance(machine: RunContext, kind: Value) -> Value:
    """An object that stands for all of its class and its subclasses: the join of those that the run makes."""
    instances = [one for several in machine.made.values() for one in several if one.of and kind in base_classes(one.of)]
    if not instances:
        return unknown_instance(machine, kind)
    items = {n: join_values(one.items[n] for one in instances if n in one.items) for n in instances[0].items}
    return Value("object", name=kind.name, of=kind, items=items)


def base_classes(kind: Value, depth: int = 6) -> list[Value]:
    """A class and those that it is derived from."""
    bases = kind.data if depth and kind.kind == "class" else []
    return [kind, *(one for base in bases for one in base_classes(base, depth - 1))]
