"""A growing list that becomes an array as a whole, of which a few rows are used: the rows are taken first."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

ARRAYS = ("numpy.array", "numpy.asarray")
DRAWN = {"randint": 2, "integers": 2, "choice": 1, "sample": 1}  # and how many arguments stand before the size


def taken(source: Source, line: int) -> list[Edit]:
    """``table = np.array(rows)`` near ``line`` and ``table[pick]`` of it, as ``np.array([rows[k] for k in pick])``.

    Or the columns of the rows, ``zip(*rows)``. Where the array is used for its length and for drawn rows alone.
    """
    function = source.function_at(line)
    for one in scope_names.nodes_in_scope(function.body) if isinstance(function, ast.FunctionDef) else ():
        if not isinstance(one, ast.Assign) or not isinstance(function, ast.FunctionDef) or len(one.targets) != 1:
            continue
        whole = _whole(source, one.value) if isinstance(one.targets[0], ast.Name) else None
        columns = _columns(source, one) if isinstance(one.targets[0], ast.Tuple) else None
        found = _of_table(source, function, one, whole) if whole is not None else []
        found = found or (_of_columns(source, function, one, columns) if columns is not None else [])
        if found:
            return found
    return []


def _grows(source: Source, node: ast.expr) -> bool:
    return scope_names.dotted_name(node).rpartition(".")[2] in class_members.extended_names(source)


def _whole(source: Source, value: ast.expr) -> ast.expr | None:
    """``rows`` of ``np.array(rows)`` that the file makes longer."""
    if (
        not isinstance(value, ast.Call)
        or name_bindings.qualified_name(source, value.func) not in ARRAYS
        or not value.args
    ):
        return None
    given = value.args[0]
    named = isinstance(given, (ast.Name, ast.Attribute)) and bool(scope_names.dotted_name(given))
    return given if named and _grows(source, given) else None


def _of_table(source: Source, function: ast.FunctionDef, made: ast.Assign, rows: ast.expr) -> list[Edit]:
    name, call = scope_names.dotted_name(made.targets[0]), made.value
    if not isinstance(call, ast.Call) or not _alone(source, made):
        return []
    text, above = edits.node_text(source, rows), node_lookup.parents_of(source)
    found = [edits.remove_statement(source, made)]
    several = 0
    for node in syntax_tree.walk(function):
        if not isinstance(node, ast.Name) or node.id != name or node is made.targets[0]:
            continue
        parent = above.get(node)
        if isinstance(parent, ast.Call) and scope_names.dotted_name(parent.func) == "len" and parent.args == [node]:
            found.append(edits.replace_node(source, node, text))
            continue
        pick = _picked(source, function, parent, node)
        if pick is None or not isinstance(parent, ast.Subscript):
            return []
        several += 1
        changed = edits.node_text(source, call).replace(text, f"[{text}[k] for k in {pick}]", 1)
        found.append(edits.replace_node(source, parent, changed))
    return found if several == 1 else []


def _picked(source: Source, function: ast.FunctionDef, item: ast.AST | None, node: ast.AST) -> str | None:
    """``pick`` of ``table[pick]``, which holds numbers of rows that were drawn."""
    if not isinstance(item, ast.Subscript) or item.value is not node or not isinstance(item.ctx, ast.Load):
        return None
    name = item.slice.id if isinstance(item.slice, ast.Name) else ""
    binders = scope_names.binding_statements(source, name, function) if name and name != "k" else []
    made = binders[0].value if len(binders) == 1 and isinstance(binders[0], ast.Assign) else None
    if not isinstance(made, ast.Call) or node_lookup.called_name(made) not in DRAWN:
        return None
    size = next((k.value for k in made.keywords if k.arg in ("size", "k")), None)
    size = size or next(iter(made.args[DRAWN[node_lookup.called_name(made)] :]), None)
    return name if size is not None and not isinstance(size, (ast.Tuple, ast.List)) else None


def _columns(source: Source, made: ast.Assign) -> ast.Starred | None:
    """``*rows`` of ``s, a = (np.array(c) for c in zip(*rows))``."""
    each = made.value
    if not isinstance(each, (ast.GeneratorExp, ast.ListComp)) or len(each.generators) != 1 or each.generators[0].ifs:
        return None
    column, over = each.generators[0].target, each.generators[0].iter
    converted = isinstance(each.elt, ast.Call) and name_bindings.qualified_name(source, each.elt.func) in ARRAYS
    plain = isinstance(each.elt, ast.Call) and [scope_names.dotted_name(a) for a in each.elt.args[:1]] == [
        scope_names.dotted_name(column)
    ]
    if not converted or not plain or not isinstance(over, ast.Call) or scope_names.dotted_name(over.func) != "zip":
        return None
    given = over.args[0] if len(over.args) == 1 else None
    return given if isinstance(given, ast.Starred) and _grows(source, given.value) else None


def _of_columns(source: Source, function: ast.FunctionDef, made: ast.Assign, rows: ast.Starred) -> list[Edit]:
    """The columns of the rows that are drawn; the draw moves in front of them."""
    names = {n.id for n in syntax_tree.walk(made.targets[0]) if isinstance(n, ast.Name)}
    above, picks = node_lookup.parents_of(source), set()
    found: list[Edit] = []
    for node in syntax_tree.walk(function):
        if not isinstance(node, ast.Name) or node.id not in names or not isinstance(node.ctx, ast.Load):
            continue
        used, item = _each_of(source, node), above.get(node)
        nodes = (
            [n for n in syntax_tree.walk(used.elt) if isinstance(n, ast.Name) and n.id == _target(used)]
            if used
            else [node]
        )
        items = [above.get(n) for n in nodes] if used is not None else [item]
        for one, inner in zip(items, nodes, strict=True):
            pick = _picked(source, function, one, inner)
            if pick is None or not isinstance(one, ast.Subscript):
                return []
            picks.add(pick)
            found.append(edits.replace_node(source, one, inner.id))
    drawn = scope_names.binding_statements(source, next(iter(picks)), function) if len(picks) == 1 else []
    if not drawn or not isinstance(drawn[0], ast.Assign) or not _alone(source, drawn[0]) or not _alone(source, made):
        return []
    if drawn[0].lineno != (made.end_lineno or 0) + 1 or names & scope_names.read_names(drawn[0]):
        return []
    text = edits.node_text(source, rows.value)
    indent = source.text.split("\n")[made.lineno - 1][: made.col_offset]
    draw = edits.node_text(source, drawn[0])
    return [
        edits.insert_text(source, (made.lineno, 0), f"{indent}{draw}\n"),
        edits.replace_node(source, rows.value, f"[{text}[k] for k in {next(iter(picks))}]"),
        edits.remove_statement(source, drawn[0]),
        *dict.fromkeys(found),
    ]


def _each_of(source: Source, node: ast.Name) -> ast.ListComp | ast.GeneratorExp | None:
    """``[tf.constant(v[i]) for v in (s, a)]`` around ``s``."""
    above = node_lookup.parents_of(source)
    listed = above.get(node)
    over = above.get(listed) if isinstance(listed, (ast.Tuple, ast.List)) else None
    used = above.get(over) if isinstance(over, ast.comprehension) and over.iter is listed else None
    return used if isinstance(used, (ast.ListComp, ast.GeneratorExp)) and len(used.generators) == 1 else None


def _target(used: ast.ListComp | ast.GeneratorExp) -> str:
    return scope_names.dotted_name(used.generators[0].target)


def _alone(source: Source, one: ast.stmt) -> bool:
    """Whether the statement stands alone on its lines, and not alone in its block."""
    row = source.text.split("\n")[one.lineno - 1]
    return ";" not in row and not row[: one.col_offset].strip() and len(scope_names.statement_block(source, one)) > 1
