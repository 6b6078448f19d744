"""Limits that a script sets itself (threads of TensorFlow, cores of the process), and the edits that remove them."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator

from slowtrain.causes import fact_causes
from slowtrain.causes.machine.limited_host import CONFIG_OPTIONS, SETTERS, CoreLimit, LimitedHost
from slowtrain.model import Edit, Effect, Evidence, Place, Prescription
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.locations.recorded_sources import edit_project, recorded_source
from slowtrain.script.navigation import call_index, name_bindings, setting_origins
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace

ALL_CORES_CURE = "give the process all cores: lift the affinity, quota or thread setting"
THREAD_SETTERS = frozenset(
    f"tensorflow.config.threading.set_{kind}_op_parallelism_threads" for kind in ("intra", "inter")
)  # 0 lets TensorFlow choose
WORKER_COUNT_VARIABLES = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")  # set by launchers
THREAD_VARIABLES = frozenset(
    {"OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT"}
)
EditFinder = Callable[[Source], tuple[Edit, ...]]


def find_cures(trace: Trace, finding: CoreLimit | Evidence) -> Iterable[Prescription]:
    if isinstance(finding, Evidence):
        yield from fact_causes.check_cures(trace, LimitedHost.id)
        return
    find_edits = {"threads": thread_limit_edits, "affinity": affinity_edits}.get(finding.kind)
    edits = edit_project(trace, find_edits) if find_edits else ()
    # If TensorFlow reports a number of threads, the script has set it: it cannot be set from outside.
    treatment = "all-threads" if finding.kind == "threads" else None
    yield Prescription(
        "edit" if edits else "setting", Effect.EQUIVALENT, ALL_CORES_CURE, edits=edits, treatment=treatment
    )


def find_lines(trace: Trace, finding: CoreLimit) -> tuple[Place, ...]:
    """Lines of the script that set the limit."""
    argv = trace.fact("launch", "argv", default=()) or ()
    script = next((str(arg) for arg in argv if str(arg).endswith(".py")), None)
    if script is None:
        return ()
    source = recorded_source(trace, script) or recorded_source(trace, os.path.join(trace.root, script))
    setters, lines = SETTERS[finding.kind], []
    for number, line in enumerate(source.text.splitlines() if source else (), 1):
        is_setter = any(setter in line for setter in setters)
        if source and is_setter and not line.lstrip().startswith("#") and "hasattr" not in line:
            # Lines that decide the argument of the setter: a call of its function, a setting.
            calls = find.calls_at_line(source, number, *setters)
            lines += [origin for call in calls for origin in source_locations.argument_origins(source, call)]
            lines.append(number)
    return source_places.merge_places(Place(script, line) for line in lines)


def thread_limit_edits(source: Source) -> tuple[Edit, ...]:
    """Removes the script's own numbers of threads; nothing if one of them is computed, or comes from outside."""
    changed: list[Edit] = []
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Call):
            if name_bindings.qualified_name(source, node.func) in THREAD_SETTERS:
                given = find.argument_value(node, "num_threads", 0)
                count = queries.int_at(source, given)
                if given is None or count is None:
                    return ()
                if count != 0:
                    changed.append(_removed_call(source, node) or edits.replace_node(source, given, "0"))
            elif find.called_name(node) == "ConfigProto":
                for option in node.keywords:
                    if option.arg in CONFIG_OPTIONS:
                        if queries.int_at(source, option.value) is None:
                            return ()
                        changed.append(edits.replace_node(source, option.value, "0"))
        assigned = _thread_variable(source, node)
        if assigned is not None:
            value, whole = assigned
            if setting_origins.literal_origin(source, value) is None or not isinstance(whole, ast.stmt):
                return ()
            changed.append(_removed_statement(source, whole))
    return tuple(changed)


def affinity_edits(source: Source) -> tuple[Edit, ...]:
    """Removes the calls that bind the script's own process to some of the cores."""
    done = []
    for node in syntax_tree.walk(source.tree):
        if not (isinstance(node, ast.Call) and _binds_cores(source, node)):
            continue
        statement = find.enclosing_statement(source, node)
        around = find.enclosing_function(source, node)
        parameters = {a.arg for a in around.args.args} if around is not None else set()
        is_planned = bool(
            parameters & {n.id for a in node.args for n in syntax_tree.walk(a) if isinstance(n, ast.Name)}
        )
        alone = _condition_on_workers(source, statement) if is_planned and statement is not None else None
        if is_planned and (alone is None or not isinstance(statement, ast.Expr) or statement.value is not node):
            return ()  # each worker has its own core on purpose
        if alone is not None:
            done.append(alone)
            continue
        if not (isinstance(statement, ast.Expr) and statement.value is node):
            return ()
        done.append(_removed_statement(source, _with_guard(source, statement)))
    return tuple(done)


def _condition_on_workers(source: Source, statement: ast.stmt) -> Edit | None:
    """The statement under a condition on several workers, if the file reads how many a launcher started."""
    counts = [
        n.value for n in call_index.nodes_of_class(source, ast.Constant)
        if isinstance(n.value, str) and n.value in WORKER_COUNT_VARIABLES
    ]  # fmt: skip
    name, missing = edits.ensure_import(source, "os", "os")
    row = source.text.split("\n")[statement.lineno - 1]
    alone = not row.encode()[: statement.col_offset].strip() and statement.lineno == statement.end_lineno
    if not counts or missing or not alone:
        return None
    indent = row[: len(row) - len(row.lstrip())]
    asked = f'if int({name}.environ.get("{counts[0]}", "1")) > 1:'
    return edits.replace_node(
        source, statement, f"{asked}\n{indent}{edits.indentation_unit(source)}{edits.node_text(source, statement)}"
    )


def find_core_limits(source: Source) -> Iterator[tuple[ast.expr, str, EditFinder]]:
    """Nodes that limit TensorFlow to one thread or the process to one core, each with words and its edits."""
    one = "TensorFlow computes with one thread, however many cores there are"
    for call in call_index.index_of(source).calls_of("set_intra_op_parallelism_threads"):
        given = find.argument_value(call, "num_threads", 0)
        if name_bindings.qualified_name(source, call.func) in THREAD_SETTERS and queries.int_at(source, given) == 1:
            yield call, one, thread_limit_edits
    for call in call_index.index_of(source).calls_of("ConfigProto"):
        given = find.argument_value(call, CONFIG_OPTIONS[0])
        if given is not None and queries.int_at(source, given) == 1:
            yield given, one, thread_limit_edits
    for value in _variable_values(source):
        if _variable_text(source, value) == "1":
            yield value, one, thread_limit_edits
    for call in call_index.index_of(source).calls_of("sched_setaffinity", "cpu_affinity"):
        cores = call.args[-1] if call.args else None
        single = isinstance(cores, (ast.Set, ast.List, ast.Tuple)) and len(cores.elts) == 1
        counted = cores is not None and not single and operators.known_length(interpreter.value_at(source, cores)) == 1
        if not (single or counted) or not _binds_cores(source, call) or _is_for_several_workers(source, call):
            continue
        if affinity_edits(source) or _runs_in_this_process(source, call):
            yield call, "this binds the process to one core", affinity_edits


def _variable_text(source: Source, value: ast.expr) -> str:
    """The value of a variable, from ``"1"``, ``str(THREADS)``, or ``f"{run['threads']}"``."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "str" and value.args:
        value = value.args[0]
    elif (
        isinstance(value, ast.JoinedStr) and len(value.values) == 1 and isinstance(value.values[0], ast.FormattedValue)
    ):
        value = value.values[0].value
    return str(queries.constant_at(source, value))


def _is_for_several_workers(source: Source, call: ast.Call) -> bool:
    """Whether the call is under a condition on the number of workers that a launcher started."""
    test = find.enclosing_node(source, call, ast.If)
    asked = syntax_tree.walk(test.test) if isinstance(test, ast.If) else ()
    return any(isinstance(n, ast.Constant) and n.value in WORKER_COUNT_VARIABLES for n in asked)


def _runs_in_this_process(source: Source, call: ast.Call) -> bool:
    """Whether the file itself calls the function that binds the cores, and passes it to nothing else."""
    function = find.enclosing_function(source, call)
    if function is None:
        return False
    called = [c.func for c in call_index.index_of(source).calls_of(function.name)]
    named = [n for n in name_bindings.reads_of(source, function.name) if n not in called]
    return bool(called) and not named and not any(find.enclosing_function(source, c) is function for c in called)


def _binds_cores(source: Source, call: ast.Call) -> bool:
    if name_bindings.qualified_name(source, call.func) == "os.sched_setaffinity":
        return True
    if name_bindings.qualified_name(source, call.func) in (
        "os.system",
        "subprocess.run",
        "subprocess.call",
        "subprocess.check_call",
    ):
        texts = [n.value for a in call.args for n in syntax_tree.walk(a) if isinstance(n, ast.Constant)]
        return any(isinstance(t, str) and t.split()[:1] == ["taskset"] for t in texts)
    return isinstance(call.func, ast.Attribute) and call.func.attr == "cpu_affinity" and bool(call.args)


def _thread_variable(source: Source, node: ast.AST) -> tuple[ast.expr, ast.AST | None] | None:
    """The value that ``node`` assigns to an environment variable of threads, and the statement."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
        if name_bindings.qualified_name(source, target.value) == "os.environ" and _is_thread_variable(
            source, target.slice
        ):
            return node.value, node if len(node.targets) == 1 else None
    setters = ("os.environ.setdefault", "os.putenv")
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 2
        and name_bindings.qualified_name(source, node.func) in setters
    ):
        statement = find.enclosing_statement(source, node) if _is_thread_variable(source, node.args[0]) else None
        if statement is not None:
            return node.args[1], statement if isinstance(statement, ast.Expr) and statement.value is node else None
    return None


def _variable_values(source: Source) -> Iterator[ast.expr]:
    """All values that the file assigns to variables of threads."""
    for node in (
        *call_index.nodes_of_kind(source, ast.Assign),
        *call_index.index_of(source).calls_of("setdefault", "putenv"),
    ):
        found = _thread_variable(source, node)
        if found is not None:
            yield found[0]
    for call in call_index.index_of(source).calls_of("update"):
        yield from _updated_values(source, call)


def _updated_values(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    """The values that ``os.environ.update`` assigns to variables of threads."""
    if name_bindings.qualified_name(source, call.func) != "os.environ.update":
        return
    yield from (k.value for k in call.keywords if k.arg in THREAD_VARIABLES)
    for given in call.args:
        written = setting_origins.written_value(source, given)
        pairs = zip(written.keys, written.values, strict=True) if isinstance(written, ast.Dict) else ()
        yield from (value for key, value in pairs if key is not None and _is_thread_variable(source, key))


def _is_thread_variable(source: Source, node: ast.expr) -> bool:
    """Whether a key is the name of a variable of threads, or a loop variable over such names."""
    if isinstance(node, ast.Constant):
        return node.value in THREAD_VARIABLES
    loop = find.enclosing_node(source, node, ast.For) if isinstance(node, ast.Name) else None
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or loop.target.id != node.id:  # type: ignore[attr-defined]
        return False
    over = setting_origins.written_value(source, loop.iter)
    names = [getattr(e, "value", None) for e in over.elts] if isinstance(over, (ast.Tuple, ast.List, ast.Set)) else []
    return bool(THREAD_VARIABLES & set(names)) and all(str(n).endswith("_THREADS") for n in names)


def _removed_call(source: Source, call: ast.Call) -> Edit | None:
    """Removes the call, if it is a separate line at the top level of the file."""
    statement = find.enclosing_statement(source, call)
    alone = isinstance(statement, ast.Expr) and statement.value is call and statement in source.tree.body
    return _removed_statement(source, statement) if alone and isinstance(statement, ast.stmt) else None


def _with_guard(source: Source, statement: ast.stmt) -> ast.stmt:
    """The ``if hasattr(...)`` around a statement, if it holds nothing else."""
    holder = find.parents_of(source).get(statement)
    if isinstance(holder, ast.If) and holder.body == [statement] and not holder.orelse:
        tested = [find.called_name(n) for n in syntax_tree.walk(holder.test) if isinstance(n, ast.Call)]
        if all(name in ("hasattr", "system", "startswith", "cpu_count") for name in tested):
            return holder
    return statement


def _removed_statement(source: Source, statement: ast.stmt) -> Edit:
    """Removes a statement; ``pass`` replaces it if it shares its line or its block holds nothing else."""
    rows = source.text.split("\n")
    first, last = rows[statement.lineno - 1], rows[(statement.end_lineno or statement.lineno) - 1].rstrip("\r")
    rest = last.encode()[statement.end_col_offset or 0 :].decode().strip()
    alone = not first.encode()[: statement.col_offset].strip() and (not rest or rest.startswith("#"))
    holder = find.parents_of(source).get(statement)
    if alone and (
        isinstance(holder, ast.Module)
        or (isinstance(holder, FUNCTION_NODES) and _has_other_statements(holder, statement))
    ):
        return edits.remove_statement(source, statement)
    return edits.replace_node(source, statement, "pass")


def _has_other_statements(function: ast.FunctionDef | ast.AsyncFunctionDef, statement: ast.stmt) -> bool:
    """Whether a statement stays in the function that has nothing to do with limits."""
    return any(not isinstance(s, (ast.Expr, ast.Assign)) for s in function.body if s is not statement)
