"""Edits that move repeated conversions and constant work of a hand-written training loop before the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from slowtrain.model import Edit
from slowtrain.script.fixes.input import generator_edits
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.interpreter import value_at
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.navigation.step_input import BLOCK_STATEMENTS
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

DRAWING_METHODS = frozenset(
    "normal uniform random rand randn randint integers choice standard_normal permutation random_sample poisson beta "
    "gamma exponential binomial laplace lognormal".split()
)
CONSTANT_FUNCTIONS = frozenset("int float str len bool range tempfile.gettempdir os.getcwd os.environ.get".split())


def table_kind(source: Source, name: ast.Name) -> str | None:
    """Return "arrays" for a NumPy array in memory, "lists" for lists of equal length with numbers, else None."""
    if queries.kind_at(source, name) == queries.ARRAY:
        return None if _may_be_mapped_file(source, name) else "arrays"
    return "lists" if value_at(source, name).kind == "list" and queries.shape_at(source, name) is not None else None


def _may_be_mapped_file(source: Source, name: ast.Name) -> bool:
    """Whether the array may be a file that is mapped into memory, which a conversion would read as a whole."""
    bound = name_bindings.bindings_of(name_bindings.binding_scope(source, name, name.id), name.id)
    values = [name_bindings.assigned_value(source, n) for n in bound if isinstance(n, ast.Name)]
    return any(isinstance(v, ast.Call) and node_lookup.called_name(v) in ("load", "memmap") for v in values)


def holds_row_numbers(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds an array of integers, such as a permutation, a range or a slice of one."""
    found = value_at(source, name)
    return found.kind == "array" and found.dtype.startswith("int")


def is_plain_constant(source: Source, name: str) -> bool:
    """Whether a module-level name is assigned once, to a number, a string or a tuple of them."""
    found = scope_names.binding_statements(source, name, source.tree)
    bound = list(name_bindings.bindings_of(source.tree, name))
    if len(found) != 1 or len(bound) != 1 or not isinstance(found[0], ast.Assign) or not isinstance(bound[0], ast.Name):
        return False
    value = name_bindings.assigned_value(source, bound[0])
    return value is not None and all(_is_immutable(source, n) for n in syntax_tree.walk(value))


def _is_immutable(source: Source, node: ast.AST) -> bool:
    """Whether an expression only creates immutable values."""
    if isinstance(node, ast.Call):
        name = scope_names.resolved_name(source, node.func)
        return name.startswith("os.path.") or name in CONSTANT_FUNCTIONS
    return not isinstance(node, (ast.List, ast.Dict, ast.Set, ast.Subscript, ast.ListComp, ast.DictComp, ast.SetComp))


def read_dataset_into_memory(source: Source, line: int) -> list[Edit]:
    """Replace ``f["x"]`` of an HDF5 file by ``f["x"][:]`` if the loop at ``line`` reads its rows.

    The caller has to make sure that the whole data set fits in memory.
    """
    names = {
        n.value.id: n.value for n in call_index.nodes_of_class(source, ast.Subscript)
        if isinstance(n.value, ast.Name) and n.lineno <= line <= (n.end_lineno or 0)
        and scope_names.enclosing_loops(source, n)
    }  # fmt: skip
    found = []
    for name in names.values():
        part = name_bindings.single_assignment(source, name)
        stored = isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant)
        if not stored or not isinstance(part, ast.Subscript) or not _is_open_hdf5_file(source, part.value):
            continue
        if not isinstance(part.slice, ast.Constant) or not isinstance(part.slice.value, str):
            continue
        if _is_only_sliced(source, name.id):
            found.append(edits.insert_text(source, edits.node_end(part), "[:]"))
    return sorted(found, key=lambda e: e.start)


def _is_open_hdf5_file(source: Source, node: ast.expr) -> bool:
    """Whether ``node`` is an HDF5 file that is open for reading."""
    if not isinstance(node, ast.Name):
        return False
    value = dataset_chains.last_assignment(source, node, node)
    if not isinstance(value, ast.Call) or scope_names.resolved_name(source, value.func) != "h5py.File":
        return False
    mode = node_lookup.argument_value(value, "mode", 1)
    return mode is None or (isinstance(mode, ast.Constant) and mode.value == "r")


def _is_only_sliced(source: Source, name: str) -> bool:
    """Whether the file only slices ``name`` and reads its length and shape, without changing it in place."""
    above = node_lookup.parents_of(source)
    parts: set[str] = set()
    for node in syntax_tree.walk(source.tree):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        parent = above.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "dtype", "ndim", "size"):
            continue
        if isinstance(parent, ast.Call) and scope_names.dotted_name(parent.func) == "len":
            continue
        if not isinstance(parent, ast.Subscript) or parent.value is not node or not isinstance(parent.ctx, ast.Load):
            return False
        holder = above.get(parent)
        if isinstance(holder, ast.Assign):
            parts |= scope_names.bound_names(holder)
    for node in syntax_tree.walk(source.tree):
        target: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node.value
        if isinstance(target, ast.Name) and target.id in parts:
            return False
    return True


CONVERSION_FUNCTIONS = ("tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.cast")
PURE_BUILTINS = frozenset(
    "len range zip list tuple sorted sum min max float int abs round enumerate reversed dict set".split()
)
PURE_METHODS = frozenset(
    "astype reshape copy transpose mean std sum max min flatten ravel tolist numpy squeeze clip swapaxes items keys "
    "values split join strip".split()
)
# Parts of NumPy and TensorFlow names that draw random numbers, keep state or reach outside the process.
IMPURE_NAME_PARTS = tuple(".random .Variable keras .data. .io.write .save .load .summary .lookup .gfile".split())


# -- conversions


def convert_before_loop(source: Source, line: int) -> list[Edit]:
    """Replace ``tf.constant(data[i:j])`` at ``line`` by a slice of a tensor that is converted before the loop.

    ``data`` must be an array, or lists that form one, and must not change while the loop runs.
    """
    found: list[Edit] = []
    names: dict[str, str] = {}
    calls = [n for n in call_index.nodes_of_class(source, ast.Call) if n.lineno == line]
    calls = [c for c in calls if scope_names.resolved_name(source, c.func) in CONVERSION_FUNCTIONS]
    for call in calls:
        part = call.args[0] if call.args else None
        if not isinstance(part, ast.Subscript) or not isinstance(part.value, ast.Name):
            return []
        loop = _invariant_loop(source, call, [*call.args[1:], *(k.value for k in call.keywords)], part.value.id)
        table = table_kind(source, part.value)
        typed = node_lookup.argument_value(call, "dtype", 1) is not None
        if loop is None or table is None or (table == "lists" and not typed):
            return []
        index = _row_index_text(source, part.slice)
        if index is None:
            return []
        whole = _whole_conversion(source, call, part)
        name = names.get(whole) or moved_statements.free_name(source, f"{part.value.id}_tensor", taken=names.values())
        if whole not in names:
            found.append(edits.insert_before(source, loop, f"{name} = {whole}"))
            names[whole] = name
        tf, _ = edits.ensure_import(source, "tensorflow", "tf")
        rows = f"{name}[{index}]" if isinstance(part.slice, ast.Slice) else f"{tf}.gather({name}, {index})"
        found.append(edits.replace_node(source, call, rows))
    return found


def _row_index_text(source: Source, index: ast.expr) -> str | None:
    """Return the text of the row index: a slice or an array of row numbers."""
    if isinstance(index, ast.Slice):
        start, stop = (edits.node_text(source, b) if b is not None else "" for b in (index.lower, index.upper))
        spaced = " " if "\x20:" in edits.node_text(source, index) else ""
        return f"{start}{spaced}:{spaced}{stop}" if index.step is None else None
    if isinstance(index, ast.Name) and holds_row_numbers(source, index):
        return index.id
    return None


def _whole_conversion(source: Source, call: ast.Call, part: ast.Subscript) -> str:
    """Return the conversion of the whole data: ``tf.constant(data, dtype=...)``."""
    arguments = [edits.node_text(source, part.value), *(edits.node_text(source, a) for a in call.args[1:])]
    arguments += [f"{k.arg}={edits.node_text(source, k.value)}" for k in call.keywords]
    return f"{edits.node_text(source, call.func)}({', '.join(arguments)})"


# -- statements that give the same in every step


def hoist_assignment(source: Source, line: int) -> list[Edit]:
    """Move the assignment at ``line`` before the loops that change none of its inputs."""
    found = [
        n for n in call_index.nodes_of_class(source, ast.Assign)
        if n.lineno <= line <= (n.end_lineno or n.lineno)
        and not isinstance(n, node_lookup.SCOPE_NODES)
    ]  # fmt: skip
    if len(found) != 1:
        return []
    statement = found[0]
    targets = [n for t in statement.targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    row = source.text.splitlines()[statement.lineno - 1]
    if not all(isinstance(t, ast.Name) for t in targets) or row[: statement.col_offset].strip() or ";" in row:
        return []
    if isinstance(statement.value, (ast.List, ast.Dict)) or not is_pure(source, statement.value):
        return []
    if not _reads_only_data(source, statement.value):
        return []
    loop = _invariant_loop(source, statement, [statement.value])
    if loop is None or not _runs_in_each_iteration(source, statement, loop):
        return []
    names = {t.id for t in targets if isinstance(t, ast.Name)}
    inside = list(scope_names.nodes_in_scope(loop.body))
    again = [
        n for n in inside if isinstance(n, ast.stmt) and not isinstance(n, BLOCK_STATEMENTS) and n is not statement
    ]
    if any(names & scope_names.bound_names(n) for n in again) or any(names & header_names(n) for n in inside):
        return []
    if any(generator_edits.base_name(n) in names for n in inside if is_item_store(n)) or may_be_changed_by_call(
        source, names, loop
    ):
        return []
    if len(scope_names.statement_block(source, statement)) < 2:
        return []
    text = "\n".join(moved_statements.statement_lines(source.text.split("\n"), statement))
    return [edits.insert_before(source, loop, text), edits.remove_statement(source, statement, text)]


def hoist_repeated_work(source: Source, line: int) -> list[Edit]:
    """Move constant work at ``line`` before the loop: the whole assignment, or its conversions."""
    return hoist_assignment(source, line) or hoist_conversions(source, line)


def hoist_conversions(source: Source, line: int) -> list[Edit]:
    """Move conversions of constant data, as in ``step(tf.constant(data), batch)`` at ``line``, before the loop."""
    simple = [n for n in call_index.nodes_of_kind(source, ast.Assign, ast.Expr) if isinstance(n, ast.stmt)]
    around = [n for n in simple if n.lineno <= line <= (n.end_lineno or n.lineno)]
    if len(around) != 1:
        return []
    found: list[Edit] = []
    names: dict[str, str] = {}
    for call in _outermost_conversions(source, around[0]):
        loop = _invariant_loop(source, call, [call])
        may_move = (
            loop is not None
            and is_pure(source, call)
            and _reads_only_data(source, call)
            and _runs_in_each_iteration(source, around[0], loop)
        )
        if loop is None or not may_move or call.lineno != call.end_lineno:
            continue
        whole = edits.node_text(source, call)
        if whole not in names:
            first = next((n.id for n in syntax_tree.walk(call.args[0]) if isinstance(n, ast.Name)), "data")
            names[whole] = moved_statements.free_name(source, f"{first}_tensor", taken=names.values())
            found.append(edits.insert_before(source, loop, f"{names[whole]} = {whole}"))
        found.append(edits.replace_node(source, call, names[whole]))
    return found


def _outermost_conversions(source: Source, statement: ast.AST) -> Iterator[ast.Call]:
    """Return the outermost conversions that a statement always runs."""
    for node in ast.iter_child_nodes(statement):
        if (
            isinstance(node, ast.Call)
            and node.args
            and scope_names.resolved_name(source, node.func) in CONVERSION_FUNCTIONS
        ):
            yield node
        elif isinstance(node, (ast.Call, ast.keyword, ast.Tuple, ast.List, ast.BinOp, ast.Starred, ast.Subscript)):
            yield from _outermost_conversions(source, node)


def is_pure(source: Source, value: ast.expr) -> bool:
    """Whether ``value`` is a pure expression: equal inputs give equal results, without side effects."""
    waits = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    inner = list(syntax_tree.walk(value))
    calls = [n for n in inner if isinstance(n, ast.Call)]
    return bool(calls) and not any(isinstance(n, waits) for n in inner) and all(_is_pure_call(source, c) for c in calls)


def _is_pure_call(source: Source, call: ast.Call) -> bool:
    name = scope_names.resolved_name(source, call.func)
    if name.startswith(("numpy.", "tensorflow.")):
        return not any(word in name for word in IMPURE_NAME_PARTS)
    return isinstance(call.func, ast.Attribute) and call.func.attr in PURE_METHODS


def _reads_only_data(source: Source, node: ast.AST) -> bool:
    """Whether ``node`` reads only data and functions, and no state that a step changes implicitly."""
    functions = {n.name for n in syntax_tree.walk(source.tree) if isinstance(n, FUNCTION_NODES)}
    known = (
        functions
        | repeatable_functions.imported_names(source)
        | repeatable_functions.DETERMINISTIC_BUILTINS
        | PURE_BUILTINS
    )
    free = {n for n in scope_names.read_names(node) if n not in known}
    names = [
        n for n in syntax_tree.walk(node) if isinstance(n, ast.Name) and n.id in free and isinstance(n.ctx, ast.Load)
    ]
    return all(is_plain_constant(source, n.id) or table_kind(source, n) is not None for n in names)


def _runs_in_each_iteration(source: Source, statement: ast.stmt, loop: ast.stmt) -> bool:
    """Whether every iteration of ``loop`` runs ``statement``: only loops and ``with`` statements enclose it."""
    above = node_lookup.parents_of(source)
    node: ast.AST = statement
    while node is not loop:
        node = above[node]
        if node is not loop and not isinstance(node, (ast.For, ast.With)):
            return False
    return True


def header_names(node: ast.AST) -> set[str]:
    """Return names that the header of a loop or ``with`` binds."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return scope_names.bound_names(node.target)
    opened = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    return scope_names.bound_names([i.optional_vars for i in opened if i.optional_vars is not None])


def is_item_store(node: ast.AST) -> TypeGuard[ast.Subscript | ast.Attribute]:
    return isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load)


# -- what stays as it is


def _invariant_loop(
    source: Source, node: ast.AST, reads: Sequence[ast.expr], data: str = ""
) -> ast.For | ast.While | None:
    """Return the outermost loop around ``node`` that changes neither ``data`` nor the inputs of ``reads``."""
    names = {n for r in reads for n in scope_names.read_names(r)} | ({data} if data else set())
    found = None
    for loop in scope_names.enclosing_loops(source, node):
        inside = [loop, *(f for s in loop.body for f in source.reachable_functions(s)[1:])]
        again = scope_names.bound_names(loop.body) | header_names(loop)
        if names & again or any(
            names & scope_names.declared_outer_names(f) for f in inside if isinstance(f, FUNCTION_NODES)
        ):
            break
        if any(is_item_store(n) and generator_edits.base_name(n) in names for f in inside for n in syntax_tree.walk(f)):
            break
        if may_be_changed_by_call(source, names, loop):
            break
        found = loop
    return found


def may_be_changed_by_call(source: Source, names: set[str], loop: ast.AST) -> bool:
    """Whether a call in ``loop`` may change one of ``names`` in place."""
    for node in syntax_tree.walk(loop):
        if not isinstance(node, ast.Call):
            continue
        if generator_edits.arrays_filled_by(node) & names:
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in generator_edits.MUTATING_METHODS:
            args = {generator_edits.base_name(a) for a in node.args}
            if generator_edits.base_name(node.func.value) in names or (node.func.attr == "shuffle" and args & names):
                return True
        name = scope_names.resolved_name(source, node.func)
        if name.startswith(("numpy.", "tensorflow.")) or name in PURE_BUILTINS:
            continue
        function = node_lookup.function_named(source, node.func.id, node) if isinstance(node.func, ast.Name) else None
        plain = {a.id for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Name)}
        if plain & names and function is not None and not generator_edits.changes_only_own_results(function):
            return True
    return False
