"""Edits of a pipeline's operations: their order, their text and one more at the end."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source


def are_movable(source: Source, run: Sequence[ast.Call]) -> bool:
    """Whether the operations of ``run``, neighbours in a chain, may be reordered.

    They must be in one block of statements; nothing else uses the values between them, and no name that they read
    changes on the way.
    """
    statements = [node_lookup.enclosing_statement(source, c) for c in run]
    first, last = statements[0], statements[-1]
    if first is None or last is None:
        return False
    for flow in dataset_chains.chains_through(source, run[0]):
        begun = flow.calls.index(run[0])
        if flow.calls[begun : begun + len(run)] != tuple(run):
            return False
    block = scope_names.statement_block(source, first)
    if any(s not in block for s in statements) or scope_names.enclosing_loops(
        source, first
    ) != scope_names.enclosing_loops(source, last):
        return False
    between = block[block.index(first) : block.index(last) + 1]
    named = {n for c in run for a in (*c.args, *(k.value for k in c.keywords)) for n in scope_names.read_names(a)}
    carried = {n for s in between if s in statements for n in scope_names.bound_names(s)}
    for statement in between:
        if statement in statements:
            if statement is not last and not isinstance(statement, ast.Assign):
                return False
            if named & scope_names.bound_names(statement):
                return False
        elif (
            carried & (scope_names.read_names(statement) | scope_names.bound_names(statement))
        ) or named & scope_names.bound_names(statement):
            return False
    return len(set(map(id, statements))) == 1 or _is_unread_after(source, statements, block, carried)


def replace_operations(source: Source, run: Sequence[ast.Call], texts: Sequence[str]) -> list[Edit]:
    """The operations of ``run`` replaced in order by ``texts`` (``map(f)``); dots, line breaks and comments stay."""
    found = []
    for call, text in zip(run, texts, strict=True):
        line, column = edits.node_end(call.func)
        begun = (line, column - len(node_lookup.called_name(call).encode()))
        if text != operation_text(source, call):
            found.append(Edit(source.file, begun, edits.node_end(call), text))
    return found


def append_operation(source: Source, call: ast.Call, text: str) -> list[Edit]:
    """``call`` followed by ``text`` (``.cache()``), on a line of its own if the operation is on one."""
    line, column = edits.node_end(call.func)
    rows = source.text.encode().split(b"\n")
    indent = rows[line - 1][: column - len(node_lookup.called_name(call).encode())].decode()
    inside = line > 1 and not rows[line - 2].rstrip().endswith(b"\\")
    if isinstance(call.func, ast.Attribute) and indent.strip() == "." and inside:
        text = f"\n{indent[:-1]}{text}"
    return edits.append_to_chain(source, call, text)


def remove_operation(source: Source, call: ast.Call) -> list[Edit]:
    """The chain without ``call``, or the file without the statement ``ds = ds.map(f)`` and an ``if`` around it."""
    statement = node_lookup.enclosing_statement(source, call)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call and name == getattr(owner, "id", ""):
            above = node_lookup.parents_of(source).get(statement)
            match above:
                case ast.If(test=ast.Name() | ast.Attribute(), body=[_], orelse=[]):
                    statement = above
            if len(scope_names.statement_block(source, statement)) > 1:
                return [edits.remove_statement(source, statement)]
    line, column = edits.node_end(call.func)
    rows = source.text.encode().split(b"\n")
    before = rows[line - 1][: column - len(node_lookup.called_name(call).encode())].rstrip().removesuffix(b".")
    while not before.strip() and line > 1 and b"#" not in rows[line - 2]:
        line -= 1
        before = rows[line - 1].rstrip()
    return [Edit(source.file, (line, len(before.rstrip() or before)), edits.node_end(call), "")]


def operation_text(source: Source, call: ast.Call, changes: Iterable[Edit] = ()) -> str:
    """The text ``map(f)`` of ``ds.map(f)``, with those of ``changes`` that are inside it."""
    line, column = edits.node_end(call.func)
    rows = [0]
    text = source.text.encode()
    for row in text.split(b"\n"):
        rows.append(rows[-1] + len(row) + 1)
    begun, stop = (line, column - len(node_lookup.called_name(call).encode())), edits.node_end(call)
    inside = sorted((c for c in changes if begun <= c.start and c.end <= stop), key=lambda c: (c.start, c.end))
    found, at = b"", begun
    for one in inside:
        found += text[rows[at[0] - 1] + at[1] : rows[one.start[0] - 1] + one.start[1]] + one.text.encode()
        at = one.end
    found += text[rows[at[0] - 1] + at[1] : rows[stop[0] - 1] + stop[1]]
    return found.replace(b"\r\n", b"\n").decode()


def _is_unread_after(
    source: Source, statements: Sequence[ast.stmt | None], block: list[ast.stmt], carried: set[str]
) -> bool:
    """Whether the names that the earlier statements bind are rebound by the last one, or read nowhere else."""
    last = statements[-1]
    assert last is not None
    left = carried - scope_names.bound_names(last)
    rest = block[block.index(last) + 1 :]
    inside = node_lookup.enclosing_function(source, last) is not None
    if not inside and any(
        left & scope_names.read_names(n)
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, (ast.FunctionDef, ast.Lambda))
    ):
        return False
    return not any(left & scope_names.read_names(s) for s in rest)
