"""Edits that move statements out of a loop that repeats them without need."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import function_extraction
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

COLLECT_CALLS = ("gc.collect",)
DISABLING_CALLS = frozenset(
    {"gc.disable", "gc.set_threshold"}
)  # without automatic collection, only gc.collect() frees cycles


def move_collect_after_loop(source: Source, line: int) -> list[Edit]:
    """Move ``gc.collect()`` at ``line`` after the innermost loop, or out of a function that loops call."""
    calls = [
        c
        for c in node_lookup.calls_at_line(source, line, "collect")
        if scope_names.resolved_name(source, c.func) in COLLECT_CALLS
    ]
    statement = node_lookup.enclosing_statement(source, calls[0]) if len(calls) == 1 else None
    if statement is None or not isinstance(statement, ast.Expr) or statement.value is not calls[0]:
        return []
    loops = scope_names.enclosing_loops(source, statement)
    if not loops and (
        node_lookup.enclosing_function(source, statement) is None or _disables_automatic_collection(source)
    ):
        return []
    if loops and edits.node_end(statement) == edits.node_end(loops[0]) and len(loops[0].body) > 1:
        return _move_behind_loop(source, statement, loops[0])
    gone = _remove_or_pass(source, statement)
    if not gone or not loops:
        return gone
    return [*gone, edits.insert_after(source, loops[0], edits.node_text(source, calls[0]))]


def _disables_automatic_collection(source: Source) -> bool:
    """Whether the file disables automatic garbage collection."""
    return any(
        scope_names.resolved_name(source, n.func) in DISABLING_CALLS
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Call)
    )


def _move_behind_loop(source: Source, statement: ast.stmt, loop: ast.stmt) -> list[Edit]:
    """Move the last statement of the loop after the loop, if its line contains nothing else."""
    rows = source.text.split("\n")
    inner, outer = rows[statement.lineno - 1][: statement.col_offset], rows[loop.lineno - 1][: loop.col_offset]
    if inner.strip() or outer.strip() or statement.lineno != statement.end_lineno:
        return []
    if len(scope_names.statement_block(source, statement)) == 1:
        return [
            edits.replace_node(source, statement, "pass"),
            edits.insert_after(source, loop, edits.node_text(source, statement)),
        ]
    return [Edit(source.file, (statement.lineno, 0), edits.node_start(statement), outer)]


def _remove_or_pass(source: Source, statement: ast.stmt) -> list[Edit]:
    """Remove the statement, or replace it by ``pass`` if its block would be empty or its line holds more."""
    rows = source.text.split("\n")
    row = rows[statement.lineno - 1].encode()
    rest = row[statement.end_col_offset or 0 :].decode().strip()
    alone = statement.lineno == statement.end_lineno and not row[: statement.col_offset].strip()
    if len(scope_names.statement_block(source, statement)) == 1 or not alone or (rest and not rest.startswith("#")):
        return [edits.replace_node(source, statement, "pass")]
    return [edits.remove_statement(source, statement)]


def freeze_before_loop(source: Source, line: int) -> list[Edit]:
    """Add ``gc.freeze()`` before the outermost loop, or the call of ``fit``, at ``line``."""
    if any(
        scope_names.resolved_name(source, n.func) == "gc.freeze"
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Call)
    ):
        return []
    around = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    plain = [n for n in around if not isinstance(n, (*FUNCTION_NODES, ast.ClassDef))]
    loops = [n for n in plain if isinstance(n, (ast.For, ast.While))]
    anchor = loops[0] if loops else plain[-1] if plain else None
    if anchor is None or node_lookup.enclosing_function(source, anchor) is not node_lookup.enclosing_function(
        source, plain[-1]
    ):
        return []
    name, importing = edits.ensure_import(source, "gc", "gc")
    return [*importing, edits.insert_before(source, anchor, f"{name}.collect()\n{name}.freeze()")]


def hoist_traced_function(source: Source, line: int) -> list[Edit]:
    """Move the ``tf.function`` that is made at ``line`` before the loop.

    Empty if it needs names that the loop binds.
    """
    statement = _traced_function_at(source, line)
    if statement is None:
        return []
    loops = scope_names.enclosing_loops(source, statement)
    if not loops or scope_names.statement_block(source, statement) is not getattr(
        _parent_node(source, statement), "body", None
    ):
        return []
    outermost = loops[-1]
    if not isinstance(_parent_node(source, statement), (ast.For, ast.While)):
        return []
    bound = set().union(*(scope_names.bound_names(one) for one in loops)) - scope_names.bound_names(statement)
    scope = scope_names.enclosing_scope(source, statement)
    names = scope_names.bound_names(statement)
    if scope_names.read_names(statement) & bound or any(
        len(scope_names.binding_statements(source, n, scope)) != 1 for n in names
    ):
        return []
    if function_extraction.edits_cross_strings([statement]):
        return []
    return _move_statement(source, statement, outermost)


def _traced_function_at(source: Source, line: int) -> ast.stmt | None:
    """Return ``@tf.function def step`` or ``step = tf.function(f)`` at the line."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and graph_obstacles.is_graph_function(source, node):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= (node.end_lineno or node.lineno):
                return node
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and node.lineno <= line <= _last_line(node)
        ):
            made = scope_names.resolved_name(source, node.value.func) == "tensorflow.function"
            if made and isinstance(node.targets[0], ast.Name):
                return node
    return None


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _parent_node(source: Source, node: ast.AST) -> ast.AST | None:
    return node_lookup.parents_of(source).get(node)


def _move_statement(source: Source, statement: ast.stmt, before: ast.stmt) -> list[Edit]:
    """Move the lines of the statement before another one, with its indentation."""
    rows = source.text.split("\n")
    start = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    stop = statement.end_lineno or statement.lineno
    old = rows[statement.lineno - 1][: statement.col_offset]
    new = rows[before.lineno - 1][: before.col_offset]
    if old.strip() or new.strip() or len(scope_names.statement_block(source, statement)) == 1:
        return []
    body = [r.rstrip("\r")[len(old) :] if r.startswith(old) else r.strip() for r in rows[start - 1 : stop]]
    text = "".join(f"{new}{row}\n" if row.strip() else "\n" for row in body)
    after = stop + 1 if stop < len(rows) and rows[stop].strip() else stop + 2
    after = min(after, len(rows))
    blank = "\n" if isinstance(statement, FUNCTION_NODES) else ""
    return [
        edits.insert_text(source, (before.lineno, 0), text + blank),
        Edit(source.file, (start, 0), (after if blank else stop + 1, 0), ""),
    ]


# -- compile() again and again


def assign_learning_rate(source: Source, line: int) -> list[Edit]:
    """Replace a repeated ``compile()`` at ``line`` in a loop by an assignment of the learning rate.

    The optimizer must be stateless, because ``compile()`` would reset its state.
    """
    call = node_lookup.single_call(source, line, "compile")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or not isinstance(call.func, ast.Attribute):
        return []
    loops, owner = scope_names.enclosing_loops(source, statement), scope_names.dotted_name(call.func.value)
    if not loops or not owner:
        return []
    if any(owner.partition(".")[0] in scope_names.bound_names(one) for one in loops):
        return []
    earlier = [
        c
        for c in _compile_calls(source)
        if c is not call
        and scope_names.dotted_name(c.func)[: -len(".compile")] == owner
        and c.lineno < loops[-1].lineno
    ]
    rate = _stateless_learning_rate(source, call)
    if len(earlier) != 1 or rate is None or _stateless_learning_rate(source, earlier[0]) is None:
        return []
    if _call_without_rate(source, call) != _call_without_rate(source, earlier[0]):
        return []
    return [edits.replace_node(source, statement, f"{owner}.optimizer.learning_rate = {rate}")]


def _compile_calls(source: Source) -> list[ast.Call]:
    return [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and node_lookup.called_name(n) == "compile"
    ]


def _stateless_learning_rate(source: Source, call: ast.Call) -> str | None:
    """Return the learning rate of ``compile(SGD(rate), …)`` without momentum."""
    made = node_lookup.argument_value(call, "optimizer", 0)
    if not isinstance(made, ast.Call) or node_lookup.called_name(made) != "SGD":
        return None
    given = node_lookup.argument_value(made, "learning_rate", 0)
    if (
        len(made.args) + len(made.keywords) != 1
        or given is None
        or any(isinstance(n, ast.Call) for n in syntax_tree.walk(given))
    ):
        return None
    return edits.node_text(source, given)


def _call_without_rate(source: Source, call: ast.Call) -> str:
    """Return the text of the call without the learning rate."""
    rate = _stateless_learning_rate(source, call)
    return ast.unparse(call).replace(f"({rate})", "()").replace(f"(learning_rate={rate})", "()")
