"""Builds a data set on the first one if each iteration builds it on the previous one, so that it gets longer."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

HARMLESS_STAGES = frozenset({"prefetch", "with_options"})  # more of them keep the same elements in the same order


def rebase_dataset(source: Source, line: int) -> tuple[list[Edit], bool]:
    """Gives ``ds = ds.map(f)`` at ``line`` another name on the left; and whether every number stays the same.

    Empty if code outside the same iteration reads the longer data set.
    """
    made = [
        n for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and n.lineno <= line <= (n.end_lineno or n.lineno) and len(n.targets) == 1
    ]  # fmt: skip
    if len(made) != 1:
        return [], False
    statement, target = made[0], made[0].targets[0]
    operations = _added_operations(statement)
    whole = scope_names.dotted_name(target)
    function = node_lookup.enclosing_function(source, statement)
    own = isinstance(target, ast.Attribute) and scope_names.dotted_name(target.value) == "self"
    if not operations or not (own or isinstance(target, ast.Name)):
        return [], False
    turns = [n for n in scope_names.enclosing_loops(source, statement) if statement in n.body]
    if (own and function is None) or (not own and not turns):
        return [], False
    block = scope_names.statement_block(source, statement)
    behind = [
        n
        for s in block[block.index(statement) + 1 :]
        for n in syntax_tree.walk(s)
        if scope_names.dotted_name(n) == whole
    ]
    if not behind or not _has_no_other_use(source, statement, target, behind):
        return [], False
    usual = target.attr if isinstance(target, ast.Attribute) else whole
    name = moved_statements.free_name(source, f"this_{usual}", f"this_turns_{usual}")
    renamed = [
        edits.replace_node(source, n, name) for n in (target, *behind) if isinstance(n, (ast.Name, ast.Attribute))
    ]
    return renamed, {node_lookup.called_name(c) for c in operations} <= HARMLESS_STAGES


def _added_operations(statement: ast.Assign) -> list[ast.Call]:
    """The operations that ``ds = ds.a().b()`` adds to the data set; empty if something else is assigned."""
    found: list[ast.Call] = []
    node = statement.value
    while isinstance(node, ast.Call) and dataset_chains.is_operation(node) and isinstance(node.func, ast.Attribute):
        found.append(node)
        node = node.func.value
    itself = scope_names.dotted_name(node) == scope_names.dotted_name(statement.targets[0]) != ""
    given = {n for c in found for a in (*c.args, *(k.value for k in c.keywords)) for n in _dotted_names(a)}
    return found if itself and scope_names.dotted_name(node) not in given else []


def _has_no_other_use(source: Source, statement: ast.Assign, target: ast.expr, behind: list[ast.AST]) -> bool:
    """Whether all other uses of the target are those ``behind`` and those that create it at first."""
    allowed = {id(n) for n in behind} | {id(n) for n in syntax_tree.walk(statement)}
    if any(not isinstance(getattr(n, "ctx", None), ast.Load) for n in behind):
        return False
    if isinstance(target, ast.Attribute):
        if len([n for n in call_index.nodes_of_kind(source, ast.ClassDef) if _sets_attribute(n, target.attr)]) != 1:
            return False
        uses = [
            n
            for n in call_index.nodes_of_kind(source, ast.Attribute)
            if isinstance(n, ast.Attribute) and n.attr == target.attr
        ]
        rest = [n for n in uses if id(n) not in allowed]
        makers = [f for n in rest if (f := node_lookup.enclosing_function(source, n)) is not None]
        return len(rest) == len(makers) == 1 and makers[0].name == "__init__" and isinstance(rest[0].ctx, ast.Store)
    scope = scope_names.enclosing_scope(source, statement)
    name = scope_names.dotted_name(target)
    if isinstance(scope, ast.Module) and any(
        name in scope_names.read_names(f) for f in source.reachable_functions(source.tree)[1:]
    ):
        return False
    rest_names = [
        n for n in syntax_tree.walk(scope) if isinstance(n, ast.Name) and n.id == name and id(n) not in allowed
    ]
    turn = scope_names.enclosing_loops(source, statement)[0]
    return all(isinstance(n.ctx, ast.Store) and n.lineno < turn.lineno for n in rest_names)


def _sets_attribute(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(n, ast.Attribute) and n.attr == name and not isinstance(n.ctx, ast.Load)
        for n in syntax_tree.walk(node)
    )


def _dotted_names(node: ast.AST) -> set[str]:
    return {d for n in syntax_tree.walk(node) if (d := scope_names.dotted_name(n))}
