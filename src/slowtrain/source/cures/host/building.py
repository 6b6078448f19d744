"""Models that are built before training and never trained: made when they are asked for, or kept as weights alone."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

SEVERAL = 2


# -- one of many


def only_the_chosen(source: Source, line: int) -> list[Edit]:
    """The dictionary of models at ``line`` as one of functions, of which one is called.

    Where a function returns it, and every call is looked up at once: ``trunks(size)[name]``; or where it has a name
    that is looked up in one place, once.
    """
    tables = [n for n in call_index.nodes_of_kind(source, ast.Dict) if isinstance(n, ast.Dict)]
    tables = [n for n in tables if n.lineno <= line <= (n.end_lineno or 0) and _of_models(n)]
    holder = node_lookup.parents_of(source).get(tables[0]) if len(tables) == 1 else None
    looked: list[ast.Subscript] = []
    if isinstance(holder, ast.Return):
        looked = _looked_up(source, holder)
    elif isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
        looked = _looked_up_once(source, holder, holder.targets[0].id)
    if not looked:
        return []
    wrapped = [edits.insert_text(source, edits.node_start(v), "lambda: ") for v in tables[0].values]
    return [*wrapped, *(edits.insert_text(source, edits.node_end(one), "()") for one in looked)]


def _of_models(table: ast.Dict) -> bool:
    """Whether all its values are made by calls, of names that nothing in it binds."""
    if (
        len(table.values) < SEVERAL
        or None in table.keys
        or any(isinstance(n, ast.NamedExpr) for n in syntax_tree.walk(table))
    ):
        return False
    return all(isinstance(v, ast.Call) for v in table.values) and not any(
        isinstance(n, (ast.Await, ast.Yield, ast.YieldFrom)) for n in syntax_tree.walk(table)
    )


def _looked_up_once(source: Source, made: ast.Assign, name: str) -> list[ast.Subscript]:
    """The one look-up in the scope in which the table is made, which no loop repeats."""
    above = node_lookup.parents_of(source)
    uses = [
        n
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Name) and n.id == name and n is not made.targets[0]
    ]
    item = above.get(uses[0]) if len(uses) == 1 else None
    if not isinstance(item, ast.Subscript) or item.value is not uses[0] or not isinstance(item.ctx, ast.Load):
        return []
    here = scope_names.enclosing_scope(source, item) is scope_names.enclosing_scope(
        source, made
    ) and not scope_names.enclosing_loops(source, item)
    repeated = node_lookup.enclosing_node(source, item, *scope_names.COMPREHENSIONS, ast.Lambda) is not None
    return [item] if here and not repeated and _names_stay(source, made, item) else []


def _names_stay(source: Source, made: ast.Assign, item: ast.Subscript) -> bool:
    """Whether what the calls read is the same when the look-up comes."""
    scope = scope_names.enclosing_scope(source, made)
    names = scope_names.read_names(made.value)
    between = [n for name in names for n in scope_names.binding_statements(source, name, scope)]
    return not any(made.lineno < getattr(n, "lineno", 0) <= item.lineno for n in between)


def _looked_up(source: Source, returned: ast.Return) -> list[ast.Subscript]:
    """The look-ups of all calls of the function that returns the table; none where something else uses it."""
    above = node_lookup.parents_of(source)
    function = node_lookup.enclosing_function(source, returned)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return []
    leaves = [
        n for n in scope_names.nodes_in_scope(function.body) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom))
    ]
    if leaves != [returned]:
        return []
    found: list[ast.Subscript] = []
    for node in syntax_tree.walk(source.tree):
        named = isinstance(node, (ast.Name, ast.Attribute)) and function.name in (
            getattr(node, "id", ""),
            getattr(node, "attr", ""),
        )
        if not named:
            continue
        call = above.get(node)
        item = above.get(call) if isinstance(call, ast.Call) and call.func is node else None
        if not (isinstance(item, ast.Subscript) and item.value is call and isinstance(item.ctx, ast.Load)):
            return []
        found.append(item)
    return found


# -- copies of one


def as_weights(source: Source, line: int) -> list[Edit]:
    """``[clone_model(model) for _ in range(n)]`` at ``line``, whose weights alone are used, as lists of weights."""
    made = [
        n for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and n.lineno <= line <= (n.end_lineno or 0) and isinstance(n.value, ast.ListComp)
    ]  # fmt: skip
    if len(made) != 1 or len(made[0].targets) != 1 or not isinstance(made[0].targets[0], ast.Name):
        return []
    name, models = made[0].targets[0].id, made[0].value
    scope = scope_names.enclosing_scope(source, made[0])
    if (
        not isinstance(models, ast.ListComp)
        or not isinstance(models.elt, ast.Call)
        or node_lookup.called_name(models.elt) != "clone_model"
    ):
        return []
    if len(scope_names.binding_statements(source, name, scope)) != 1:
        return []
    found = _kept(source, name)
    return [edits.replace_node(source, models.elt, "[]"), *found] if found else []


def _kept(source: Source, name: str) -> list[Edit]:
    """Each copy's weights kept in place of the copy: set in one loop over all of them, and read behind it."""
    above = node_lookup.parents_of(source)
    found: list[Edit] = []
    filled: ast.For | None = None
    uses = [
        n
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    for use in sorted(uses, key=edits.node_start):
        turn = above.get(use)
        if (
            not isinstance(turn, (ast.For, ast.comprehension))
            or turn.iter is not use
            or not isinstance(turn.target, ast.Name)
        ):
            return []
        whole: ast.AST | None = turn if isinstance(turn, ast.For) else above.get(turn)
        inside = (
            [
                n
                for n in syntax_tree.walk(whole)
                if isinstance(n, ast.Name) and n.id == turn.target.id and n is not turn.target
            ]
            if whole
            else []
        )
        for node in inside:
            method = above.get(node)
            call = above.get(method) if isinstance(method, ast.Attribute) else None
            if not isinstance(call, ast.Call) or not isinstance(method, ast.Attribute) or call.func is not method:
                return []
            if method.attr == "set_weights" and filled is None and _each_turn(source, turn, call):
                assert isinstance(turn, ast.For)
                filled = turn
                text = f"{turn.target.id}[:] = {edits.node_text(source, call.args[0])}"
                found.append(edits.replace_node(source, call, text))
            elif method.attr == "get_weights" and filled is not None and call.lineno > (filled.end_lineno or 0):
                found.append(edits.replace_node(source, call, turn.target.id))
            else:
                return []
    return found if filled is not None else []


def _each_turn(source: Source, turn: ast.AST, call: ast.Call) -> bool:
    """Whether ``call`` is a statement of the loop's own block, which no turn leaves early."""
    statement = node_lookup.enclosing_statement(source, call)
    if (
        not isinstance(turn, ast.For)
        or statement not in turn.body
        or len(call.args) != 1
        or call.keywords
        or turn.orelse
    ):
        return False
    leaves = (ast.Break, ast.Continue, ast.Return)
    whole = isinstance(statement, ast.Expr) and statement.value is call
    return whole and not any(isinstance(n, leaves) for n in syntax_tree.walk(turn))
