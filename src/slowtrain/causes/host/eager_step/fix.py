"""Makes steps that run op by op graphs: takes back the switches for that, and compiles the steps themselves."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from slowtrain.causes.host.eager_step import SWITCHES, EagerReason, EagerStepFinding, gradient_places, has_eager_compile
from slowtrain.causes.host.eager_step.compiled_steps import (
    body_without_docstring,
    compiled_step,
    compiled_steps,
)
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.number_text import first_names
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.locations import recorded_sources, source_locations, source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

MIN_GRADIENT_FREQUENCY = 0.1  # of the most frequent gradient: a less frequent one is not part of a step
MAX_NAMED_STEPS = 4
OPTION_PATTERN = re.compile("run_eagerly")
DECORATE_STEP = "put @tf.function on the function that takes the gradient and applies it"
REMOVE_RUN_EAGERLY = "remove run_eagerly=True from compile()"
UPDATE_METHODS = frozenset({".apply_gradients", ".apply", ".minimize", ".assign", ".assign_sub", ".assign_add"})
REMOVE_SWITCH = "remove tf.config.run_functions_eagerly(True)"


def find_cures(trace: Trace, finding: EagerStepFinding) -> Iterable[Prescription]:
    if trace.on_jax:
        says = "put @jax.jit on the function that takes the gradient and applies it"
        yield Prescription("edit", Effect.EQUIVALENT, says)
    elif has_eager_compile(trace):
        edits = recorded_edits.first_applicable(trace, finding.where, without_eager_compile)
        yield Prescription("edit", Effect.EQUIVALENT, REMOVE_RUN_EAGERLY, edits=edits, treatment="no-eager")
    elif finding.reason is EagerReason.GLOBAL_SWITCH:
        remove = without_eager_switch
        edits = recorded_edits.first_applicable(trace, finding.where, lambda source, _: remove(source))
        edits = edits or recorded_sources.edit_project(trace, remove)
        yield Prescription("edit", Effect.EQUIVALENT, REMOVE_SWITCH, edits=edits, treatment="no-eager")
    else:
        yield _compile_steps_cure(trace, finding.where)


def find_lines(trace: Trace, finding: EagerStepFinding) -> Iterable[Place]:
    """The switches, or the functions that took a gradient, where the decorator belongs."""
    if finding.reason is EagerReason.GLOBAL_SWITCH:
        return source_places.project_places(trace, _switch_lines)
    gradients = set(gradient_places(trace))

    def function_lines(source: Source) -> Iterable[int]:
        within = [source.function_at(place.line) for place in gradients if place.file == source.file]
        for tape in eager_tapes(source):
            function = node_lookup.enclosing_function(source, tape)
            if function is not None and function in within:
                yield step_name_range(source, tape)[0][0]

    return source_places.project_places(trace, function_lines)


def _switch_lines(source: Source) -> Iterable[int]:
    """Lines that make all functions eager, each after the line of its True if that is elsewhere."""
    for call in call_index.index_of(source).calls_of(*SWITCHES):
        given = node_lookup.argument_value(call, "run_eagerly", 0)
        if isinstance(given, ast.Constant) and not given.value:
            continue
        literal = setting_origins.literal_origin(source, given) if given is not None else None
        if given is not None and literal is not None and literal.value:  # else the command line turned it on
            yield from source_locations.literal_line(source, given)
        yield call.lineno


def _compile_steps_cure(trace: Trace, where: Sequence[Place]) -> Prescription:
    edits, compiled, left = _compile_steps(trace)
    says = DECORATE_STEP
    if len(compiled) > 1:
        says = f"put @tf.function on the functions that take the gradients and apply them: {_joined_names(compiled)}"
    elif not edits:
        edits = recorded_edits.first_applicable(trace, where, compiled_step)
    if edits and left:
        says += f"; {_joined_names(left)} as well, by hand: the text does not show that it may be a graph"
    return Prescription("edit", Effect.EQUIVALENT, says, edits=edits)


def _compile_steps(trace: Trace) -> tuple[tuple[Edit, ...], list[str], list[str]]:
    """The edits that compile the steps that took gradients, the names of these steps, and those of the rest."""
    edited: list[Edit] = []
    compiled: list[str] = []
    left: list[str] = []
    lines: dict[str, list[int]] = {}
    for place in _frequent_gradient_places(trace):
        lines.setdefault(place.file, []).append(place.line)
    for file, several in lines.items():
        source = recorded_sources.recorded_source(trace, file)
        made = compiled_steps(source, several) if source is not None else {}
        if source is None or not recorded_edits.are_valid_edits(source, (e for one in made.values() for e in one)):
            continue
        edited += dict.fromkeys(e for one in made.values() for e in one)
        for line in several:
            function = source.function_at(line)
            name = f"line {line}" if function is None else getattr(function, "name", "")
            whole = len(made.get(line, ())) < 2
            (compiled if line in made else left).append(name if whole else f"lines of {name}")
    return tuple(edited), [*dict.fromkeys(compiled)], [*dict.fromkeys(n for n in left if n not in compiled)]


def _frequent_gradient_places(trace: Trace) -> Iterator[Place]:
    """Where gradients are taken, without rare ones, the most frequent first."""
    times = Counter(trace.lane("gradient").name.tolist()).most_common()
    for name, count in times:
        place = trace.names[int(name)].place
        if place is not None and count >= MIN_GRADIENT_FREQUENCY * times[0][1]:
            yield place


def _joined_names(several: Sequence[str]) -> str:
    return ", ".join(first_names(several, MAX_NAMED_STEPS))


def without_eager_compile(source: Source, line: int) -> list[Edit]:
    """Removes ``run_eagerly`` from ``compile()`` at ``line`` if nothing in the file's models needs it.

    Keras leaves the batch size open, so ``x.shape[0]`` in a shape becomes ``tf.shape(x)[0]``.
    """
    call = node_lookup.single_call(source, line, "compile")
    given = node_lookup.argument_value(call, "run_eagerly") if call is not None else None
    if call is None or not isinstance(given, (ast.Constant, ast.Name, ast.Attribute)):
        return []
    sizes = _open_batch_sizes(source)
    if _needs_eager_mode(source, sizes):
        return []
    return [*edits.remove_keyword(source, call, "run_eagerly"), *(_dynamic_size_edit(source, s) for s in sizes)]


def without_eager_option(source: Source, given: ast.expr) -> list[Edit]:
    """Replaces True by False in a mapping passed to ``compile()`` if nothing in the file's models needs it."""
    if not isinstance(given, ast.Constant):
        return []
    sizes = _open_batch_sizes(source)
    if _needs_eager_mode(source, sizes):
        return []
    return [edits.replace_node(source, given, "False"), *(_dynamic_size_edit(source, s) for s in sizes)]


def without_eager_switch(source: Source) -> list[Edit]:
    """Turns ``tf.config.run_functions_eagerly(True)`` off if nothing in the file needs it.

    If the True is a setting that only this call reads, the setting is changed instead.
    """
    calls = [n for n in call_index.nodes_of_class(source, ast.Call) if node_lookup.called_name(n) in SWITCHES]
    given = [value for c in calls if (value := node_lookup.argument_value(c, "run_eagerly", 0)) is not None]
    on = [v for v in given if getattr(setting_origins.written_value(source, v), "value", None) is not False]
    true = [v for v in on if getattr(setting_origins.written_value(source, v), "value", None) is True]
    if len(on) != 1 or len(given) != len(calls) or not true:
        return []
    sizes = _open_batch_sizes(source)
    if _needs_eager_mode(source, sizes):
        return []
    return [
        edits.replace_node(source, _only_setting_literal(source, on[0]), "False"),
        *(_dynamic_size_edit(source, s) for s in sizes),
    ]


def _only_setting_literal(source: Source, value: ast.expr) -> ast.expr:
    """The literal of a setting if nothing but ``value`` reads that setting; else ``value`` itself."""
    found = setting_origins.written_value(source, value)
    if found is None or not isinstance(value, (ast.Subscript, ast.Attribute)):
        return value
    key = value.attr if isinstance(value, ast.Attribute) else getattr(value.slice, "value", None)
    asked = [n for n in call_index.nodes_of_class(source, ast.Attribute) if n.attr == key]
    words = [n for n in call_index.nodes_of_class(source, ast.Constant) if n.value == key]
    names = [n for n in call_index.nodes_of_class(source, ast.keyword) if n.arg == key]
    return found if len(asked) + len(words) + len(names) <= 2 else value


def _open_batch_sizes(source: Source) -> list[ast.Subscript]:
    """Batch sizes in the models' ``call`` that must not be read while tracing."""
    if scope_names.module_alias(source, "tensorflow") != "tf":
        return []
    methods = [n for n in call_index.nodes_of_class(source, ast.FunctionDef) if n.name == "call"]
    return [size for method in methods for size in graph_obstacles.batch_size_nodes(method)]


def _dynamic_size_edit(source: Source, size: ast.Subscript) -> Edit:
    owner = size.value.value if isinstance(size.value, ast.Attribute) else size.value
    return edits.replace_node(source, size, f"tf.shape({edits.node_text(source, owner)})[0]")


def _needs_eager_mode(source: Source, sizes: Sequence[ast.AST]) -> bool:
    """Whether code that would become a graph reads values or keeps state in Python."""
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        above = node_lookup.parents_of(source).get(node)
        method = isinstance(above, ast.ClassDef) and node.name in ("call", "train_step", "test_step", "update_state")
        loss = any(p in ("y_true", "y_pred") for p in scope_names.parameter_names(node))
        graphed = graph_obstacles.is_graph_function(source, node)
        if not (method or loss or graphed):
            continue
        tensors, body = graph_obstacles.tensor_parameters(node), body_without_docstring(node.body)
        if graph_obstacles.outside_obstacle(source, node) or graph_obstacles.graph_obstacle(
            source, body, tensors, graphed, sizes
        ):
            return True
    return False


def is_true(source: Source, given: ast.expr | None) -> bool:
    return given is not None and queries.constant_at(source, given) is True


def true_option_literals(source: Source) -> Iterator[ast.expr]:
    """Values of ``run_eagerly`` that are True and reach ``compile(**options)`` in a mapping.

    A value that a condition sets is left out, because it may be there to find errors.
    """
    if "run_eagerly" not in source.words:
        return
    seen: set[ast.expr] = set()
    for event in interpreter.file_events(source):
        given = event.given.keywords.get("run_eagerly")
        if given is None or given.known is not True or event.name not in (".compile", "compile"):
            continue
        call = event.node
        if not isinstance(call, ast.Call) or all(k.arg for k in call.keywords) or is_under_condition(source, call):
            continue
        if node_lookup.argument_value(call, "run_eagerly") is not None:
            continue
        places = [one for one in _option_values(source) if interpreter.value_at(source, one).known is True]
        own = interpreter.producing_expression(source, given)
        place = own if own is not None and places else places[0] if len(places) == 1 else None
        if place is not None and place not in seen and not any(is_under_condition(source, one) for one in places):
            seen.add(place)
            yield place


def _option_values(source: Source) -> Iterator[ast.expr]:
    """The values of ``{"run_eagerly": x}``, ``dict(run_eagerly=x)`` and ``kw["run_eagerly"] = x``."""
    for node in call_index.nodes_matching(source, OPTION_PATTERN, ast.Dict):
        assert isinstance(node, ast.Dict)
        pairs = zip(node.keys, node.values, strict=True)
        yield from (one for key, one in pairs if key is not None and _is_option_key(key))
    for call in call_index.index_of(source).calls_of("dict", "update"):
        yield from (k.value for k in call.keywords if k.arg == "run_eagerly")
    for node in call_index.nodes_matching(source, OPTION_PATTERN, ast.Subscript):
        above = node_lookup.parents_of(source).get(node)
        if isinstance(node, ast.Subscript) and _is_option_key(node.slice) and isinstance(above, ast.Assign):
            yield above.value


def _is_option_key(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value == "run_eagerly"


def is_under_condition(source: Source, call: ast.expr) -> bool:
    """Whether it is under a condition such as ``if debug:``."""
    above = node_lookup.enclosing_node(source, call, ast.If)
    while isinstance(above, ast.If):
        names = {n.id for n in syntax_tree.walk(above.test) if isinstance(n, ast.Name)}
        if not isinstance(above.test, ast.Constant) and names != {"__name__"}:
            return True
        above = node_lookup.enclosing_node(source, above, ast.If)
    return False


def step_name_range(source: Source, tape: ast.With) -> tuple[tuple[int, int], tuple[int, int]]:
    """The range of the step function's name, or of the tape if the step is not a function of its own."""
    function = node_lookup.enclosing_function(source, tape)
    if function is None or scope_names.enclosing_loops(source, tape):
        item = tape.items[0].context_expr
        return edits.node_start(item), edits.node_end(item)
    line, column = edits.node_start(function)
    word = "async def " if isinstance(function, ast.AsyncFunctionDef) else "def "
    return (line, column), (line, column + len(f"{word}{function.name}".encode()))


def uncompiled_train_steps(source: Source) -> Iterator[tuple[ast.Attribute, ast.Call]]:
    """Each ``model.train_step`` of a Keras model of this file that a loop calls, and its tape.

    Only Keras' own loops compile it.
    """
    for tape in call_index.index_of(source).calls_of("GradientTape"):
        step = node_lookup.enclosing_function(source, tape)
        kind = node_lookup.parents_of(source).get(step) if step is not None else None
        if step is None or step.name != "train_step" or not isinstance(kind, ast.ClassDef) or step.decorator_list:
            continue
        if not kind.bases:
            continue  # a method of a trainer is a step like any other
        methods = [
            n
            for n in call_index.nodes_of_kind(source, ast.Attribute)
            if isinstance(n, ast.Attribute) and n.attr == step.name
        ]
        calls = [_is_only_called_in_loop(source, n) for n in methods]
        if methods and all(calls) and not any(isinstance(n.value, ast.Call) for n in methods):
            yield methods[0], tape


def _is_only_called_in_loop(source: Source, method: ast.Attribute) -> bool:
    """Whether the method is only used by calling it in a loop that is not in a graph."""
    above = node_lookup.parents_of(source)
    holder = above.get(method)
    calls: list[ast.Call] = [holder] if isinstance(holder, ast.Call) and holder.func is method else []
    if isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name):
        alias = holder.targets[0].id
        uses = [
            n for n in name_bindings.reads_of(source, alias) if name_bindings.single_assignment(source, n) is method
        ]
        calls = [c for n in uses if isinstance(c := above.get(n), ast.Call) and c.func is n]
        if len(calls) != len(uses):
            return False
    functions = [node_lookup.enclosing_function(source, c) for c in calls]
    plain = not any(f is not None and (f.decorator_list or _is_passed_by_name(source, f.name)) for f in functions)
    return plain and bool(calls) and all(queries.repeating_loop(source, c, 2) is not None for c in calls)


def _is_passed_by_name(source: Source, name: str) -> bool:
    """Whether the function is passed by its name: ``tf.function(step)``, ``strategy.run(step)``."""
    for call in call_index.index_of(source).calls_of("function"):  # tf.function(getattr(...)) may be any function
        if call.args and isinstance(call.args[0], ast.Call) and node_lookup.called_name(call.args[0]) == "getattr":
            return True
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if (node.id if isinstance(node, ast.Name) else node.attr) == name:
            above = node_lookup.parents_of(source).get(node)
            if not (isinstance(above, ast.Call) and above.func is node):
                return True
    return False


def eager_tapes(source: Source) -> Iterator[ast.With]:
    """Find gradient tapes of training steps that a loop runs eagerly in each iteration."""
    every = file_events(source) if "GradientTape" in source.text else ()
    updated = {one for e in every if e.name in UPDATE_METHODS and not e.graph for one in e.loops}
    for event in every:
        if event.name != "tensorflow.GradientTape" or event.graph or event.producer:
            continue
        tape = node_lookup.enclosing_statement(source, event.node)
        way = [*zip(event.path, event.files, strict=True), (tape, source)]
        if any(node is not None and node_lookup.is_taped(file, node) for node, file in way):
            continue  # a gradient inside a gradient, of a residual: no step
        if isinstance(tape, ast.With) and any(
            one in updated for one in event.regular_loops(graph_code.MIN_REPEATED_TURNS)[-1:]
        ):
            yield tape
