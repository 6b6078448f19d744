"""Moves statements of a loop: into a function, before the loop, or behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from msgspec import Struct

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source


class ExtractedStatements(Struct, frozen=True):
    """Consecutive statements of one block that can be extracted into a function before ``anchor``."""

    statements: tuple[ast.stmt, ...]
    anchor: ast.stmt
    parameters: tuple[str, ...]
    results: tuple[str, ...]


def statements_to_extract(source: Source, statements: Sequence[ast.stmt], at_top: bool) -> ExtractedStatements | None:
    """Return ``statements`` with their inputs and outputs. ``at_top``: the function goes to module level."""
    first = statements[0]
    scope = scope_names.enclosing_scope(source, first)
    anchor: ast.AST = [first, *scope_names.enclosing_loops(source, first)][-1]
    if at_top:
        while isinstance(scope_names.enclosing_scope(source, anchor), FUNCTION_NODES):
            anchor = scope_names.enclosing_scope(source, anchor)
        above = node_lookup.parents_of(source)
        while not isinstance(above.get(anchor), ast.Module):
            anchor = above[anchor]
    if not isinstance(anchor, ast.stmt):
        return None
    local = scope_names.bound_names(scope_names.scope_body(scope)) | set(scope_names.parameter_names(scope))
    needed = [n for n in _names_in_order(scope) if n in local and n in _names_read_first(statements)]
    if not at_top:
        needed = [n for n in needed if _varies_by_iteration(source, n, scope, anchor)]
    bound = scope_names.bound_names(list(statements))
    used = _names_read_outside(scope, statements) | set(needed)  # the next iteration needs these values
    results = [n for n in _stored_names(statements) if n in bound & used]
    return ExtractedStatements(tuple(statements), anchor, tuple(needed), tuple(results))


def _varies_by_iteration(source: Source, name: str, scope: ast.AST, anchor: ast.stmt) -> bool:
    """Whether ``name`` is bound inside ``anchor`` or after it, so that the function cannot read it as a global."""
    binders = scope_names.binding_statements(source, name, scope)
    inside = {id(n) for n in syntax_tree.walk(anchor)}
    return any(id(b) in inside or getattr(b, "lineno", 0) > anchor.lineno for b in binders)


def _names_read_first(statements: Sequence[ast.stmt]) -> set[str]:
    """Return names that the statements read before they bind them."""
    bound: set[str] = set()
    needed: set[str] = set()
    for one in statements:
        needed |= _names_needed(one, bound)
        bound |= scope_names.bound_names(one)
    return needed


def _names_needed(one: ast.stmt, bound: set[str]) -> set[str]:
    if isinstance(one, (ast.With, ast.For, ast.If)):
        head = (
            [i.context_expr for i in one.items]
            if isinstance(one, ast.With)
            else [one.iter if isinstance(one, ast.For) else one.test]
        )
        needed = scope_names.read_names(head) - bound
        inner = set(bound)
        if isinstance(one, ast.With):
            inner |= {
                n for i in one.items if i.optional_vars is not None for n in scope_names.bound_names(i.optional_vars)
            }
        if isinstance(one, ast.For):
            inner |= scope_names.bound_names(one.target)
        for part in (one.body, getattr(one, "orelse", [])):
            known = set(inner)
            for each in part:
                needed |= _names_needed(each, known)
                known |= scope_names.bound_names(each)
        return needed
    return scope_names.read_names(one) - bound


def _names_read_outside(scope: ast.AST, statements: Sequence[ast.stmt]) -> set[str]:
    """Return names that the scope reads outside the statements, including earlier lines, which a loop may run again."""
    inside = {id(n) for one in statements for n in syntax_tree.walk(one)}
    found = set()
    for one in scope_names.scope_body(scope):
        for node in syntax_tree.walk(one):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Load, ast.Del)) and id(node) not in inside:
                found.add(node.id)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and id(node) not in inside:
                found.add(node.target.id)
    return found


def _names_in_order(scope: ast.AST) -> list[str]:
    """Return the names of the scope in the order in which they are bound, parameters first."""
    bound = [
        n
        for n in scope_names.nodes_in_scope(scope_names.scope_body(scope))
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    bound.sort(key=lambda n: (n.lineno, n.col_offset))
    others = sorted(scope_names.bound_names(scope_names.scope_body(scope)))
    return list(dict.fromkeys([*scope_names.parameter_names(scope), *(n.id for n in bound), *others]))


def _stored_names(statements: Sequence[ast.stmt]) -> list[str]:
    names = [n for one in statements for n in syntax_tree.walk(one) if isinstance(n, ast.Name)]
    stored = sorted((n for n in names if isinstance(n.ctx, ast.Store)), key=lambda n: (n.lineno, n.col_offset))
    return list(dict.fromkeys(n.id for n in stored))


def extract_function(source: Source, found: ExtractedStatements, name: str, decorator: str) -> list[Edit]:
    """Define the function before the anchor and call it in place of the statements. Empty if the text cannot move."""
    rows = source.text.split("\n")
    first, last = found.statements[0], found.statements[-1]
    start, stop = first.lineno, last.end_lineno or last.lineno
    if not own_their_lines(source, found.statements) or edits_cross_strings(found.statements):
        return []
    indent = rows[start - 1][: first.col_offset]
    to = rows[found.anchor.lineno - 1][: found.anchor.col_offset]
    if indent.strip() or to.strip():
        return []
    unit = edits.indentation_unit(source)
    body = [_reindent_row(row.rstrip("\r"), indent, to + unit) for row in rows[start - 1 : stop]]
    returned = [f"{to}{unit}return {', '.join(found.results)}"] if found.results else []
    top = [f"{to}{decorator}", f"{to}def {name}({', '.join(found.parameters)}):", *body, *returned]
    blank = [""] * (2 if not to else 1)
    anchor_line = min([found.anchor.lineno, *(d.lineno for d in getattr(found.anchor, "decorator_list", []))])
    targets = f"{', '.join(found.results)} = " if found.results else ""
    call = f"{indent}{targets}{name}({', '.join(found.parameters)})"
    leading = blank if rows[anchor_line - 2].strip() and anchor_line > 1 else []
    return [
        edits.insert_text(source, (anchor_line, 0), "\n".join([*leading, *top, *blank, ""])),
        Edit(source.file, (start, 0), (stop, len(rows[stop - 1].rstrip("\r").encode())), call),
    ]


def own_their_lines(source: Source, statements: Sequence[ast.stmt]) -> bool:
    """Whether the first and last line contain nothing else."""
    rows = source.text.split("\n")
    first, last = statements[0], statements[-1]
    line, column = edits.node_end(last)
    rest = rows[line - 1].encode()[column:].decode().strip()
    return not rows[first.lineno - 1][: first.col_offset].strip() and (not rest or rest.startswith("#"))


def edits_cross_strings(statements: Sequence[ast.stmt]) -> bool:
    """Whether a string literal spans several lines. New indentation would change its text."""
    texts = (n for one in statements for n in syntax_tree.walk(one) if isinstance(n, (ast.Constant, ast.JoinedStr)))
    return any((n.end_lineno or n.lineno) != n.lineno for n in texts)


def first_statement_line(one: ast.stmt) -> int:
    """Return the first line of a statement, including its decorators."""
    decorators: list[ast.expr] = getattr(one, "decorator_list", [])
    return min([one.lineno, *(d.lineno for d in decorators)])


def statement_lines(rows: list[str], one: ast.stmt) -> list[str]:
    """Return the lines of the statement without its indentation."""
    start = first_statement_line(one)
    indent = rows[one.lineno - 1][: one.col_offset]
    taken = [row.rstrip("\r") for row in rows[start - 1 : one.end_lineno]]
    return [row[len(indent) :] if row.startswith(indent) else row.lstrip() for row in taken]


def _reindent_row(row: str, old: str, new: str) -> str:
    if row.startswith(old):
        return f"{new}{row[len(old) :]}" if row.strip() else ""
    return f"{new}{row.lstrip()}" if row.strip() else ""


def own_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return names of a function whose objects it creates itself."""
    lent = set(scope_names.parameter_names(function))
    for node in scope_names.nodes_in_scope(function.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)):
            lent |= {n for target in node.targets for n in scope_names.bound_names(target)}
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            lent |= scope_names.bound_names(node.target)
    return scope_names.bound_names(function.body) - lent


def free_name(source: Source, *wanted: str, taken: Iterable[str] = ()) -> str:
    """Return the first of ``wanted`` that is neither in the file nor ``taken``, or one with underscores appended."""
    known = {*taken, *scope_names.import_aliases(source)}
    known |= {n.id for n in call_index.nodes_of_class(source, ast.Name)}
    known |= {a.arg for a in call_index.nodes_of_class(source, ast.arg)}
    known |= {n.name for n in syntax_tree.walk(source.tree) if isinstance(n, (*FUNCTION_NODES, ast.ClassDef))}
    for name in wanted:
        if name not in known:
            return name
    return free_name(source, *(f"{name}_" for name in wanted), taken=taken)


def move_collect_after_loop(source: Source, line: int) -> list[Edit]:
    """Move ``gc.collect()`` at ``line`` after the innermost loop, or out of a function that loops call."""
    call = node_lookup.single_call(source, line, "collect")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    if scope_names.resolved_name(source, call.func) != "gc.collect":
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
    return [*gone, edits.insert_after(source, loops[0], edits.node_text(source, call))]


def _disables_automatic_collection(source: Source) -> bool:
    """Whether the file disables automatic garbage collection. Then only ``gc.collect()`` frees cycles."""
    calls = call_index.index_of(source).calls_of("disable", "set_threshold")
    return any(scope_names.resolved_name(source, c.func) in ("gc.disable", "gc.set_threshold") for c in calls)


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
        scope_names.resolved_name(source, c.func) == "gc.freeze" for c in call_index.index_of(source).calls_of("freeze")
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
        for c in call_index.index_of(source).calls_of("compile")
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


def _stateless_learning_rate(source: Source, call: ast.Call) -> str | None:
    """Return the learning rate of ``compile(SGD(rate), …)`` without momentum."""
    optimizer = node_lookup.argument_value(call, "optimizer", 0)
    if not isinstance(optimizer, ast.Call) or node_lookup.called_name(optimizer) != "SGD":
        return None
    rate = node_lookup.argument_value(optimizer, "learning_rate", 0)
    if (
        len(optimizer.args) + len(optimizer.keywords) != 1
        or rate is None
        or any(isinstance(n, ast.Call) for n in syntax_tree.walk(rate))
    ):
        return None
    return edits.node_text(source, rate)


def _call_without_rate(source: Source, call: ast.Call) -> str:
    """Return the text of the call without the learning rate."""
    rate = _stateless_learning_rate(source, call)
    return ast.unparse(call).replace(f"({rate})", "()").replace(f"(learning_rate={rate})", "()")
