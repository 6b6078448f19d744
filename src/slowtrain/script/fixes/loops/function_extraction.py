"""Extracts consecutive statements into a function with parameters and return values."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source


@dataclass(frozen=True)
class ExtractedStatements:
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
    made = scope_names.bound_names(list(statements))
    used = _names_read_outside(scope, statements) | set(needed)  # the next iteration needs these values
    results = [n for n in _stored_names(statements) if n in made & used]
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
    if not _own_their_lines(source, found.statements) or edits_cross_strings(found.statements):
        return []
    indent = rows[start - 1][: first.col_offset]
    to = rows[found.anchor.lineno - 1][: _column_offset(found.anchor)]
    if indent.strip() or to.strip():
        return []
    unit = edits.indentation_unit(source)
    body = [_reindent_row(row.rstrip("\r"), indent, to + unit) for row in rows[start - 1 : stop]]
    returned = [f"{to}{unit}return {', '.join(found.results)}"] if found.results else []
    top = [f"{to}{decorator}", f"{to}def {name}({', '.join(found.parameters)}):", *body, *returned]
    blank = [""] * (2 if not to else 1)
    anchor_line = min([found.anchor.lineno, *(d.lineno for d in getattr(found.anchor, "decorator_list", []))])
    given = f"{', '.join(found.results)} = " if found.results else ""
    call = f"{indent}{given}{name}({', '.join(found.parameters)})"
    leading = blank if rows[anchor_line - 2].strip() and anchor_line > 1 else []
    return [
        edits.insert_text(source, (anchor_line, 0), "\n".join([*leading, *top, *blank, ""])),
        Edit(source.file, (start, 0), (stop, len(rows[stop - 1].rstrip("\r").encode())), call),
    ]


def _column_offset(statement: ast.stmt) -> int:
    return statement.col_offset


def _own_their_lines(source: Source, statements: Sequence[ast.stmt]) -> bool:
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


def free_name(source: Source, *wanted: str) -> str:
    """Return the first of ``wanted`` that the file does not use, or one of them with underscores appended."""
    known = {n.id for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Name)}
    known |= {n.name for n in syntax_tree.walk(source.tree) if isinstance(n, (*FUNCTION_NODES, ast.ClassDef))}
    known |= {a.arg for a in syntax_tree.walk(source.tree) if isinstance(a, ast.arg)} | set(
        scope_names.import_aliases(source)
    )
    for name in wanted:
        if name not in known:
            return name
    return free_name(source, *(f"{name}_" for name in wanted))
