"""Statements that a loop repeats for nothing, taken out of it."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import FUNCTIONS, Source, edits, trees
from slowtrain.source.cures import extracting
from slowtrain.source.reading import finding, graphable, scopes

COLLECTS = ("gc.collect",)
BY_HAND_ALONE = frozenset({"gc.disable", "gc.set_threshold"})  # then nothing else frees cycles


def collected_after(source: Source, line: int) -> list[Edit]:
    """``gc.collect()`` at ``line`` behind the innermost loop in place of in it; out of a function that loops call."""
    calls = [c for c in finding.calls(source, line, "collect") if scopes.full(source, c.func) in COLLECTS]
    statement = finding.statement(source, calls[0]) if len(calls) == 1 else None
    if statement is None or not isinstance(statement, ast.Expr) or statement.value is not calls[0]:
        return []
    loops = scopes.loops(source, statement)
    if not loops and (finding.function(source, statement) is None or _by_hand_alone(source)):
        return []
    if loops and edits.end(statement) == edits.end(loops[0]) and len(loops[0].body) > 1:
        return _dedented(source, statement, loops[0])
    gone = _gone(source, statement)
    if not gone or not loops:
        return gone
    return [*gone, edits.after(source, loops[0], edits.written(source, calls[0]))]


def _by_hand_alone(source: Source) -> bool:
    """Whether the file keeps Python from collecting by itself."""
    return any(scopes.full(source, n.func) in BY_HAND_ALONE for n in trees.walk(source.tree) if isinstance(n, ast.Call))


def _dedented(source: Source, statement: ast.stmt, loop: ast.stmt) -> list[Edit]:
    """The loop's last statement behind it, where it stands alone on its line."""
    rows = source.text.split("\n")
    inner, outer = rows[statement.lineno - 1][: statement.col_offset], rows[loop.lineno - 1][: loop.col_offset]
    if inner.strip() or outer.strip() or statement.lineno != statement.end_lineno:
        return []
    if len(scopes.block(source, statement)) == 1:
        return [edits.replace(source, statement, "pass"), edits.after(source, loop, edits.written(source, statement))]
    return [Edit(source.file, (statement.lineno, 0), edits.start(statement), outer)]


def _gone(source: Source, statement: ast.stmt) -> list[Edit]:
    """The file without the statement; ``pass`` where nothing else would be left, or it does not stand alone."""
    rows = source.text.split("\n")
    row = rows[statement.lineno - 1].encode()
    rest = row[statement.end_col_offset or 0 :].decode().strip()
    alone = statement.lineno == statement.end_lineno and not row[: statement.col_offset].strip()
    if len(scopes.block(source, statement)) == 1 or not alone or (rest and not rest.startswith("#")):
        return [edits.replace(source, statement, "pass")]
    return [edits.without(source, statement)]


def frozen(source: Source, line: int) -> list[Edit]:
    """``gc.freeze()`` before the outermost loop, or the call of ``fit``, at ``line``."""
    if any(scopes.full(source, n.func) == "gc.freeze" for n in trees.walk(source.tree) if isinstance(n, ast.Call)):
        return []
    around = [n for n in trees.walk(source.tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    plain = [n for n in around if not isinstance(n, (*FUNCTIONS, ast.ClassDef))]
    loops = [n for n in plain if isinstance(n, (ast.For, ast.While))]
    anchor = loops[0] if loops else plain[-1] if plain else None
    if anchor is None or finding.function(source, anchor) is not finding.function(source, plain[-1]):
        return []
    name, importing = edits.imported(source, "gc", "gc")
    return [*importing, edits.before(source, anchor, f"{name}.collect()\n{name}.freeze()")]


def hoisted(source: Source, line: int) -> list[Edit]:
    """A ``tf.function`` made at ``line`` in a loop, made before it; nothing where it needs what the loop binds."""
    statement = _made_at(source, line)
    if statement is None:
        return []
    loops = scopes.loops(source, statement)
    if not loops or scopes.block(source, statement) is not getattr(_parent(source, statement), "body", None):
        return []
    outermost = loops[-1]
    if not isinstance(_parent(source, statement), (ast.For, ast.While)):
        return []
    bound = set().union(*(scopes.bound(one) for one in loops)) - scopes.bound(statement)
    scope = scopes.scope(source, statement)
    names = scopes.bound(statement)
    if scopes.read(statement) & bound or any(len(scopes.binders(source, n, scope)) != 1 for n in names):
        return []
    if extracting.edits_cross_strings([statement]):
        return []
    return _moved(source, statement, outermost)


def _made_at(source: Source, line: int) -> ast.stmt | None:
    """``@tf.function def step`` or ``step = tf.function(f)`` at the line."""
    for node in trees.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and graphable.graphed(source, node):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= (node.end_lineno or node.lineno):
                return node
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.lineno <= line <= _end(node):
            made = scopes.full(source, node.value.func) == "tensorflow.function"
            if made and isinstance(node.targets[0], ast.Name):
                return node
    return None


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _parent(source: Source, node: ast.AST) -> ast.AST | None:
    return finding.parents(source).get(node)


def _moved(source: Source, statement: ast.stmt, before: ast.stmt) -> list[Edit]:
    """The lines of the statement before another one, indented like it."""
    rows = source.text.split("\n")
    start = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    stop = statement.end_lineno or statement.lineno
    old = rows[statement.lineno - 1][: statement.col_offset]
    new = rows[before.lineno - 1][: before.col_offset]
    if old.strip() or new.strip() or len(scopes.block(source, statement)) == 1:
        return []
    body = [r.rstrip("\r")[len(old) :] if r.startswith(old) else r.strip() for r in rows[start - 1 : stop]]
    text = "".join(f"{new}{row}\n" if row.strip() else "\n" for row in body)
    after = stop + 1 if stop < len(rows) and rows[stop].strip() else stop + 2
    after = min(after, len(rows))
    blank = "\n" if isinstance(statement, FUNCTIONS) else ""
    return [
        edits.insert(source, (before.lineno, 0), text + blank),
        Edit(source.file, (start, 0), (after if blank else stop + 1, 0), ""),
    ]


# -- compile() again and again


def recompiled(source: Source, line: int) -> list[Edit]:
    """``compile()`` at ``line`` in a loop, done before already, as a new rate for the optimizer it has.

    Only of an optimizer without state, which a new one would begin anew.
    """
    call = finding.only(source, line, "compile")
    statement = finding.statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or not isinstance(call.func, ast.Attribute):
        return []
    loops, owner = scopes.loops(source, statement), scopes.dotted(call.func.value)
    if not loops or not owner:
        return []
    if any(owner.partition(".")[0] in scopes.bound(one) for one in loops):
        return []
    earlier = [
        c
        for c in _compiles(source)
        if c is not call and scopes.dotted(c.func)[: -len(".compile")] == owner and c.lineno < loops[-1].lineno
    ]
    rate = _rate(source, call)
    if len(earlier) != 1 or rate is None or _rate(source, earlier[0]) is None:
        return []
    if _shape(source, call) != _shape(source, earlier[0]):
        return []
    return [edits.replace(source, statement, f"{owner}.optimizer.learning_rate = {rate}")]


def _compiles(source: Source) -> list[ast.Call]:
    return [n for n in trees.walk(source.tree) if isinstance(n, ast.Call) and finding.called(n) == "compile"]


def _rate(source: Source, call: ast.Call) -> str | None:
    """The learning rate of ``compile(SGD(rate), …)``: of an optimizer without momentum."""
    made = finding.keyword(call, "optimizer", 0)
    if not isinstance(made, ast.Call) or finding.called(made) != "SGD":
        return None
    given = finding.keyword(made, "learning_rate", 0)
    if (
        len(made.args) + len(made.keywords) != 1
        or given is None
        or any(isinstance(n, ast.Call) for n in trees.walk(given))
    ):
        return None
    return edits.written(source, given)


def _shape(source: Source, call: ast.Call) -> str:
    """The call's text without its optimizer's rate."""
    rate = _rate(source, call)
    return ast.unparse(call).replace(f"({rate})", "()").replace(f"(learning_rate={rate})", "()")
