"""Loops over the rows of a table of pandas', which makes an object of each row that it hands out.

Measured with pandas 3.1 on two cores: 15 to 35 µs a row for ``iterrows()``, ``iloc[i]`` and ``loc[i, name]``, 120 to
set one value by ``loc``, 2 for ``apply(f, axis=1)`` and some for each value that ``f`` reads; of whole columns some
nanoseconds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.evaluators import literal_sizes
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.interpreter.library import functional_tools, pandas_tables
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

LEAST_ROWS = 20_000  # where they are known: fewer take less than half a second
SELECTORS = frozenset({"iloc", "loc", "iat", "at"})
# What takes longer than the row does, and is not done by columns.
OUTSIDE = frozenset(
    "open read imread imread_collection load load_img read_file urlopen read_csv save imsave imwrite copy copyfile "
    "move decode_jpeg decode_png decode_image get print".split()
)


def by_rows(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """What goes through a table row by row, in a file that trains, where nothing says that it is a small one."""
    if "pandas" not in source.words or not literal_sizes.takes_training_steps(source):
        return
    for call in call_index.index_of(source).called("iterrows"):
        over = _gone_through(source, call)
        table = call.func.value if isinstance(call.func, ast.Attribute) else None
        if over is not None and table is not None and _long(source, table) and not _elsewhere(source, over):
            yield call, "a Python loop gets each row of a table as an object of pandas' own"
    for call in call_index.index_of(source).called("apply"):
        axis = node_lookup.argument_value(call, "axis", 1)
        by_row = isinstance(axis, ast.Constant) and axis.value in (1, "columns") and call.args
        table = call.func.value if isinstance(call.func, ast.Attribute) else None
        if by_row and table is not None and _long(source, table) and not _elsewhere(source, call):
            yield call, "pandas makes an object of each row and calls Python for it"
    for loop in call_index.nodes_of_kind(source, ast.For):
        found = _picked(source, loop) if isinstance(loop, ast.For) else None
        if found is not None and _long(source, found) and not _elsewhere(source, loop):
            yield loop.iter, "a Python loop picks one row of a table after another"  # type: ignore[attr-defined]


def _gone_through(source: Source, call: ast.Call) -> ast.AST | None:
    """The loop or comprehension that goes through the rows, unless it yields samples while the model trains."""
    above = node_lookup.parents_of(source)
    at: ast.AST = call
    outer = above.get(at)
    while isinstance(outer, ast.Call) and node_lookup.called_name(outer) in ("enumerate", "tqdm"):
        at, outer = outer, above.get(outer)
    if isinstance(outer, ast.comprehension) and outer.iter is at:
        return above.get(outer)
    return outer if isinstance(outer, ast.For) and outer.iter is at and not _yields(source, outer) else None


def _picked(source: Source, loop: ast.For) -> ast.expr | None:
    """The table of ``for i in range(len(df)): ... df.iloc[i]``, of which a turn takes several values or a whole row."""
    over = loop.iter
    counted = isinstance(over, ast.Call) and node_lookup.called_name(over) in ("range", "trange")
    if not counted or not isinstance(loop.target, ast.Name) or _yields(source, loop):
        return None
    for node in (n for one in loop.body for n in syntax_tree.walk(one)):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
            continue
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        row = isinstance(first, ast.Name) and first.id == loop.target.id
        if row and node.value.attr in SELECTORS and _counts(over, node.value.value):  # type: ignore[arg-type]
            return node.value.value
    return None


def _counts(over: ast.Call, table: ast.expr) -> bool:
    """Whether the bounds of a ``range`` ask for the length of this table."""
    name = scope_names.dotted_name(table).partition(".")[0]
    return bool(name) and any(name in scope_names.read_names(n) for n in literal_sizes.length_queries(over))


def _yields(source: Source, node: ast.AST) -> bool:
    function = node_lookup.enclosing_function(source, node)
    if function is None:
        return False
    return function.name in ("__getitem__", "__call__", "__iter__") or functional_tools.is_generator(function)


def _elsewhere(source: Source, over: ast.AST) -> bool:
    """Whether a turn reads files or prints, which takes longer than to get the row, or runs ops one by one."""
    for one in source.called(over):
        for call in (n for n in syntax_tree.walk(one) if isinstance(n, ast.Call)):
            if node_lookup.called_name(call) in OUTSIDE and not _lookup(source, call):
                return True
            if name_bindings.qualified_name(source, call.func).startswith(
                ("tensorflow.", "keras.", "PIL.", "cv2.", "librosa.")
            ):
                return True
    return False


def _lookup(source: Source, call: ast.Call) -> bool:
    """``row.get("price")``, which is no request to a server, and ``row.copy()``, which is no file's."""
    if node_lookup.called_name(call) == "copy":
        return not call.args
    return node_lookup.called_name(call) == "get" and not name_bindings.qualified_name(source, call.func)


def _long(source: Source, table: ast.expr) -> bool:
    held = interpreter.value_at(source, table)
    rows = held.shape[0] if pandas_tables.is_pandas(held) and held.shape else None
    return rows is None or rows >= LEAST_ROWS
