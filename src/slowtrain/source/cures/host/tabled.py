"""Letters that a table turns into columns, each marked in an array by itself: all of a text with one assignment."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.evaluators import array_ranks
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting
from slowtrain.source.cures.host import lettered


def at_once(source: Source, line: int) -> list[Edit]:
    """``for i, c in enumerate(text): x[…, i, TABLE[c]] = 1`` around ``line``, or in its function, as one assignment.

    The columns are looked up in the same order, so that a letter which the table lacks is the same error.
    """
    within = source.function_at(line)
    found: list[Edit] = []
    for loop in call_index.nodes_of_kind(source, ast.For):
        if isinstance(loop, ast.For) and (loop.lineno <= line <= (loop.end_lineno or 0) or _in(source, loop, within)):
            found += _marked(source, loop)
    return list(dict.fromkeys(found))


def _in(source: Source, loop: ast.For, function: ast.AST | None) -> bool:
    return function is not None and node_lookup.enclosing_function(source, loop) is function


def _marked(source: Source, loop: ast.For) -> list[Edit]:
    put = loop.body[0] if len(loop.body) == 1 else None
    test = None
    if isinstance(put, ast.If) and len(put.body) == 1 and not put.orelse:
        test, put = put.test, put.body[0]
    counted = lettered.enumerated(loop)
    if counted is None or not isinstance(put, ast.Assign) or len(put.targets) != 1 or loop.orelse:
        return []
    *names, text = counted
    if isinstance(text, (ast.GeneratorExp, ast.Starred)):
        return []
    target = put.targets[0]
    places = target.slice.elts if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Tuple) else []
    if not isinstance(target, ast.Subscript) or len(places) < 2 or scope_names.dotted_name(places[-2]) != names[0]:
        return []
    fixed = [*places[:-2], put.value]
    if not all(isinstance(p, (ast.Name, ast.Constant)) for p in fixed) or set(names) & scope_names.read_names(fixed):
        return []
    table = _table(places[-1], names[1])
    if table is None or not _numbered(source, table) or not _known_before(test, places[-1], names[1]):
        return []
    if not isinstance(target.value, ast.Name) or not array_ranks.is_array(source, target.value):
        return []
    if not lettered.names_stay(source, loop) or (test is not None and not _again(source, text)):
        return []
    return _rewritten(source, loop, target, put.value, places, names, text, test)


def _table(column: ast.expr, letter: str) -> ast.expr | None:
    """The table of ``TABLE[c]``, ``self.index[c]``, ``TABLE.get(c, 4)``."""
    if isinstance(column, ast.Subscript):
        return (
            column.value
            if scope_names.dotted_name(column.value) and scope_names.dotted_name(column.slice) == letter
            else None
        )
    if not isinstance(column, ast.Call) or not isinstance(column.func, ast.Attribute) or column.func.attr != "get":
        return None
    known = bool(scope_names.dotted_name(column.func.value)) and len(column.args) == 2 and not column.keywords
    asked = known and scope_names.dotted_name(column.args[0]) == letter and _whole(column.args[1])
    return column.func.value if asked else None


def _numbered(source: Source, table: ast.expr) -> bool:
    """Whether the text shows that a table gives one whole number for each letter: of lists, columns would be many."""
    made = name_bindings.single_assignment(source, table) if isinstance(table, ast.Name) else None
    if isinstance(table, ast.Attribute):
        stored = class_members.attribute_stores(source, table.attr)
        made = name_bindings.assigned_value(source, stored[0]) if len(stored) == 1 else None
    if isinstance(made, ast.Dict):
        return all(_whole(value) for value in made.values)
    if isinstance(made, ast.DictComp) and len(made.generators) == 1:
        over, target = made.generators[0].iter, made.generators[0].target
        counted = isinstance(over, ast.Call) and scope_names.dotted_name(over.func) == "enumerate"
        count = target.elts[0] if counted and isinstance(target, ast.Tuple) else None
        return _whole(made.value) or (isinstance(count, ast.Name) and scope_names.dotted_name(made.value) == count.id)
    if isinstance(made, ast.Call) and scope_names.dotted_name(made.func) == "dict" and len(made.args) == 1:
        pairs = made.args[0]
        numbers = (
            pairs.args[-1] if isinstance(pairs, ast.Call) and scope_names.dotted_name(pairs.func) == "zip" else None
        )
        return isinstance(numbers, ast.Call) and scope_names.dotted_name(numbers.func) == "range" and not made.keywords
    return False


def _whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _known_before(test: ast.expr | None, column: ast.expr, letter: str) -> bool:
    """Nothing is asked before, or only whether the same table has the letter: ``c in TABLE``."""
    if test is None:
        return True
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.In):
        return False
    table = column.value if isinstance(column, ast.Subscript) else None
    same = table is not None and scope_names.dotted_name(test.comparators[0]) == scope_names.dotted_name(table)
    return same and scope_names.dotted_name(test.left) == letter


def _again(source: Source, text: ast.expr) -> bool:
    """Whether it can be gone through twice: its length or a part of it is asked for in the scope."""
    name = scope_names.dotted_name(text)
    return isinstance(text, ast.Name) and any(
        (
            isinstance(n, ast.Call)
            and scope_names.dotted_name(n.func) == "len"
            and [scope_names.dotted_name(a) for a in n.args] == [name]
        )
        or (isinstance(n, ast.Subscript) and scope_names.dotted_name(n.value) == name)
        for one in scope_names.scope_body(scope_names.enclosing_scope(source, text))
        for n in syntax_tree.walk(one)
    )


def _rewritten(
    source: Source,
    loop: ast.For,
    target: ast.Subscript,
    value: ast.expr,
    places: list[ast.expr],
    names: list[str],
    text: ast.expr,
    test: ast.expr | None,
) -> list[Edit]:
    indent = source.text.split("\n")[loop.lineno - 1][: loop.col_offset]
    if indent.strip():
        return []
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    columns = extracting.free_name(source, "columns", f"{scope_names.dotted_name(target.value)}_columns")
    (place, letter), over = names, edits.node_text(source, text)
    ahead = "".join(f"{edits.node_text(source, p)}, " for p in places[:-2])
    found = f"{edits.node_text(source, places[-1])} for {letter} in {over}"
    rows = f"{numpy}.arange(len({columns}))"
    lines = [f"{columns} = {numpy}.array([{found}], int)"]
    if test is not None:
        rows = extracting.free_name(source, "places", f"{scope_names.dotted_name(target.value)}_places")
        asked = edits.node_text(source, test)
        lines = [
            f"{rows} = {numpy}.array([{place} for {place}, {letter} in enumerate({over}) if {asked}], int)",
            f"{columns} = {numpy}.array([{found} if {asked}], int)",
        ]
    put = f"{edits.node_text(source, target.value)}[{ahead}{rows}, {columns}] = {edits.node_text(source, value)}"
    return [*importing, edits.replace_node(source, loop, f"\n{indent}".join([*lines, put]))]
