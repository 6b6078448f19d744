"""Other files of the project: what a script imports from them, and which scripts import it.

A file is interpreted when one of its names is first looked up, so unreached files are not parsed.
"""

from __future__ import annotations

import ast
from contextlib import suppress
from pathlib import Path

from slowtrain.script.interpreter.domain.abstract_values import CallArgs, Value, constant_value
from slowtrain.script.interpreter.domain.run_context import BudgetSpent, RunContext, Scope
from slowtrain.script.interpreter.engine import statement_rules, uncalled_code
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.navigation import assumed_uses, call_index, project_files
from slowtrain.script.text.source_file import Source

MAX_TOP_LEVEL_NODES = 10_000  # statements and expressions of a file that does not train
MAX_UNREACHED_NODES = 5_000  # statements and expressions of one function that the run does not reach
MAX_PROJECT_FILES = 12  # files of a project that are interpreted for one of them
RELEVANT_LIBRARIES = ("tensorflow", "keras", "numpy")  # a relevant file names at least one of them


def is_training_file(source: Source) -> bool:
    """Whether a file trains, or makes data sets that another file may train on. Most files do neither."""
    if any(map(call_index.index_of(source).calls_of, uncalled_code.TRAINING_CALLS)):
        return True
    if statement_rules.starts_graph_program(source):
        return True
    if "Callback" in source.text and not source.words.isdisjoint(user_callbacks.BATCH_HOOKS):
        return True
    if assumed_uses.may_feed_fit(source):
        return True
    return any(word in source.text for word in uncalled_code.DATASET_MAKERS) and bool(
        project_files.scripts_importing(source)
    )


def run_script(machine: RunContext) -> None:
    """Runs the whole script, then the functions and methods that it does not call itself.

    Those run as other scripts of the project call them, or else with unknown arguments.
    """
    source, scope = machine.main, machine.register_scope(Scope(source=machine.main))
    machine.modules[source.real_path] = scope
    machine.block(source.tree.body, scope)
    uncalled_code.run_unused_callbacks(machine, scope)
    if uncalled_code.may_run_elsewhere(machine, scope):
        for driver in project_files.scripts_importing(source):
            _run_importing_script(machine, driver)
    uncalled_code.run_uncalled(machine, scope)


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
    for kind, value, own in uncalled_code.module_functions(scope):
        if own.node is function:
            me = [uncalled_code.any_instance(machine, kind)] if kind is not None else []
            with suppress(BudgetSpent, RecursionError):
                machine.call(value, CallArgs(function, me))
    machine.events = events


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
