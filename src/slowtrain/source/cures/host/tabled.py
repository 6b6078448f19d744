"""Letters that a table turns into columns, each marked in an array by itself: all of a text with one assignment."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits, trees
from slowtrain.source.cures import extracting
from slowtrain.source.cures.host import lettered
from slowtrain.source.reading import finding, index, objects, ranks, scopes, values


def at_once(source: Source, line: int) -> list[Edit]:
    """``for i, c in enumerate(text): x[…, i, TABLE[c]] = 1`` around ``line``, or in its function, as one assignment.

    The columns are looked up in the same order, so that a letter which the table lacks is the same error.
    """
    within = source.function_at(line)
    found: list[Edit] = []
    for loop in index.nodes(source, ast.For):
        if isinstance(loop, ast.For) and (loop.lineno <= line <= (loop.end_lineno or 0) or _in(source, loop, within)):
            found += _marked(source, loop)
    return list(dict.fromkeys(found))


def _in(source: Source, loop: ast.For, function: ast.AST | None) -> bool:
    return function is not None and finding.function(source, loop) is function


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
    if not isinstance(target, ast.Subscript) or len(places) < 2 or scopes.dotted(places[-2]) != names[0]:
        return []
    fixed = [*places[:-2], put.value]
    if not all(isinstance(p, (ast.Name, ast.Constant)) for p in fixed) or set(names) & scopes.read(fixed):
        return []
    table = _table(places[-1], names[1])
    if table is None or not _numbered(source, table) or not _known_before(test, places[-1], names[1]):
        return []
    if not isinstance(target.value, ast.Name) or not ranks.isarray(source, target.value):
        return []
    if not lettered.names_stay(source, loop) or (test is not None and not _again(source, text)):
        return []
    return _rewritten(source, loop, target, put.value, places, names, text, test)


def _table(column: ast.expr, letter: str) -> ast.expr | None:
    """The table of ``TABLE[c]``, ``self.index[c]``, ``TABLE.get(c, 4)``."""
    if isinstance(column, ast.Subscript):
        return column.value if scopes.dotted(column.value) and scopes.dotted(column.slice) == letter else None
    if not isinstance(column, ast.Call) or not isinstance(column.func, ast.Attribute) or column.func.attr != "get":
        return None
    known = bool(scopes.dotted(column.func.value)) and len(column.args) == 2 and not column.keywords
    asked = known and scopes.dotted(column.args[0]) == letter and _whole(column.args[1])
    return column.func.value if asked else None


def _numbered(source: Source, table: ast.expr) -> bool:
    """Whether the text shows that a table gives one whole number for each letter: of lists, columns would be many."""
    made = values.assigned(source, table) if isinstance(table, ast.Name) else None
    if isinstance(table, ast.Attribute):
        stored = objects.stores(source, table.attr)
        made = values.given(source, stored[0]) if len(stored) == 1 else None
    if isinstance(made, ast.Dict):
        return all(_whole(value) for value in made.values)
    if isinstance(made, ast.DictComp) and len(made.generators) == 1:
        over, target = made.generators[0].iter, made.generators[0].target
        counted = isinstance(over, ast.Call) and scopes.dotted(over.func) == "enumerate"
        count = target.elts[0] if counted and isinstance(target, ast.Tuple) else None
        return _whole(made.value) or (isinstance(count, ast.Name) and scopes.dotted(made.value) == count.id)
    if isinstance(made, ast.Call) and scopes.dotted(made.func) == "dict" and len(made.args) == 1:
        pairs = made.args[0]
        numbers = pairs.args[-1] if isinstance(pairs, ast.Call) and scopes.dotted(pairs.func) == "zip" else None
        return isinstance(numbers, ast.Call) and scopes.dotted(numbers.func) == "range" and not made.keywords
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
    same = table is not None and scopes.dotted(test.comparators[0]) == scopes.dotted(table)
    return same and scopes.dotted(test.left) == letter


def _again(source: Source, text: ast.expr) -> bool:
    """Whether it can be gone through twice: its length or a part of it is asked for in the scope."""
    name = scopes.dotted(text)
    return isinstance(text, ast.Name) and any(
        (isinstance(n, ast.Call) and scopes.dotted(n.func) == "len" and [scopes.dotted(a) for a in n.args] == [name])
        or (isinstance(n, ast.Subscript) and scopes.dotted(n.value) == name)
        for one in scopes.body(scopes.scope(source, text))
        for n in trees.walk(one)
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
    numpy, importing = edits.imported(source, "numpy", "np")
    columns = extracting.free_name(source, "columns", f"{scopes.dotted(target.value)}_columns")
    (place, letter), over = names, edits.written(source, text)
    ahead = "".join(f"{edits.written(source, p)}, " for p in places[:-2])
    found = f"{edits.written(source, places[-1])} for {letter} in {over}"
    rows = f"{numpy}.arange(len({columns}))"
    lines = [f"{columns} = {numpy}.array([{found}], int)"]
    if test is not None:
        rows = extracting.free_name(source, "places", f"{scopes.dotted(target.value)}_places")
        asked = edits.written(source, test)
        lines = [
            f"{rows} = {numpy}.array([{place} for {place}, {letter} in enumerate({over}) if {asked}], int)",
            f"{columns} = {numpy}.array([{found} if {asked}], int)",
        ]
    put = f"{edits.written(source, target.value)}[{ahead}{rows}, {columns}] = {edits.written(source, value)}"
    return [*importing, edits.replace(source, loop, f"\n{indent}".join([*lines, put]))]
