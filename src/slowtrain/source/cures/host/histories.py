"""What a loop keeps of all its steps and goes through in each: only where it is used, only as much as is used."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures import extracting
from slowtrain.source.cures.input import feeding_by_hand

JOINS = frozenset({"numpy.concatenate", "numpy.append"})
WHOLE = frozenset(
    "vars __dict__ getattr asdict astuple __getstate__ pickle deepcopy".split()
)  # read objects by no name
SIMPLE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop,
          ast.expr_context, ast.Tuple)  # fmt: skip


# -- work whose result is seldom used


def where_used(source: Source, line: int) -> list[Edit]:
    """The assignment at ``line``, or the one that calls the function there, inside the ``if`` that alone uses it."""
    for statement in _making(source, line):
        user = _only_user(source, statement)
        if user is not None:
            return _sunk(source, statement, user)
    return []


def _making(source: Source, line: int) -> list[ast.Assign]:
    """Assignments in a loop that ``line`` belongs to: at it, or calling the function that holds it."""
    every = [
        n
        for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and scope_names.enclosing_loops(source, n)
    ]
    here = [n for n in every if n.lineno <= line <= (n.end_lineno or n.lineno)]
    function = source.function_at(line)
    calling = [n for n in every if function is not None and function in source.called(n.value)]
    return here or calling


def _only_user(source: Source, made: ast.Assign) -> ast.If | None:
    """The ``if`` behind the assignment, in the same block, in whose body alone its names are read."""
    block = scope_names.statement_block(source, made)
    if not all(isinstance(t, (ast.Name, ast.Tuple)) for t in made.targets) or not feeding_by_hand.pure(
        source, made.value
    ):
        return None
    names = {n for t in made.targets for n in scope_names.bound_names(t)}
    needs = {n for f in source.called(made.value) for n in scope_names.read_names(f)}
    for one in block[block.index(made) + 1 :]:
        if isinstance(one, ast.If):
            return one if _alone(source, made, one, names) else None
        if not _apart(one, needs | names):
            return None
    return None


def _alone(source: Source, made: ast.Assign, user: ast.If, names: set[str]) -> bool:
    """Whether nothing outside the body of ``user`` reads or binds the names."""
    scope = scope_names.enclosing_scope(source, made)
    inside = {id(n) for one in (made, *user.body) for n in syntax_tree.walk(one)}
    for node in scope_names.nodes_in_scope(scope_names.scope_body(scope)):
        if isinstance(node, ast.Name) and node.id in names and id(node) not in inside:
            return False
        if isinstance(node, (ast.Global, ast.Nonlocal)) and names & set(node.names):
            return False
        if isinstance(node, (*FUNCTION_NODES, ast.Lambda, ast.ClassDef)) and names & scope_names.read_names(node):
            return False  # a function inside, or of a module: it may look at them whenever it is called
    return any(isinstance(n, ast.Name) and n.id in names for one in user.body for n in syntax_tree.walk(one))


def _apart(one: ast.stmt, names: set[str]) -> bool:
    """Whether a statement between them only counts, and changes nothing of ``names``."""
    if not isinstance(one, (ast.AugAssign, ast.Assign)) or not all(
        isinstance(n, SIMPLE) for n in syntax_tree.walk(one.value)
    ):
        return False
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    return all(isinstance(t, ast.Name) for t in targets) and not scope_names.bound_names(one) & names


def _sunk(source: Source, made: ast.Assign, user: ast.If) -> list[Edit]:
    rows = source.text.split("\n")
    alone = made.lineno == made.end_lineno and not rows[made.lineno - 1].encode()[: made.col_offset].strip()
    rest = rows[made.lineno - 1].encode()[made.end_col_offset or 0 :].decode().strip()
    if not alone or (rest and not rest.startswith("#")) or user.body[0].lineno == user.lineno:
        return []
    if extracting.edits_cross_strings([made]):
        return []
    return [
        edits.remove_statement(source, made),
        edits.insert_before(source, user.body[0], edits.node_text(source, made)),
    ]


# -- histories of which only the end is read


def only_the_end(source: Source, line: int) -> list[Edit]:
    """``self.z = np.concatenate([self.z, z])`` at ``line`` with no more rows than are ever read: ``[-1024:]``.

    Other arrays that the same block makes longer in the same way go with it.
    """
    here = [
        n
        for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    if len(here) != 1:
        return []
    block = scope_names.statement_block(source, here[0])
    found: list[Edit] = []
    for one in block:
        kept = _kept_rows(source, one) if isinstance(one, ast.Assign) else None
        if kept and isinstance(one, ast.Assign):
            found += edits.append_to_chain(source, one.value, f"[-{kept}:]")
        elif one is here[0]:
            return []
    return found


def _kept_rows(source: Source, one: ast.Assign) -> int | None:
    """The most rows from the end that are read of what the assignment makes longer."""
    call, target = one.value, one.targets[0]
    if (
        not isinstance(call, ast.Call)
        or scope_names.resolved_name(source, call.func) not in JOINS
        or len(one.targets) != 1
    ):
        return None
    if any(
        isinstance(n, (ast.Name, ast.Attribute)) and getattr(n, "id", getattr(n, "attr", "")) in WHOLE
        for n in syntax_tree.walk(source.tree)
    ):
        return None
    joined = call.args[0] if call.args else None
    parts = joined.elts if isinstance(joined, (ast.List, ast.Tuple)) else call.args
    appended = node_lookup.called_name(call) == "append"
    axis = node_lookup.argument_value(call, "axis", 2 if appended else 1)
    along = axis.value if isinstance(axis, ast.Constant) else None
    if along != 0 and (axis is not None or appended):  # np.append without an axis makes one row of everything
        return None
    if (
        not parts
        or scope_names.dotted_name(target) != scope_names.dotted_name(parts[0])
        or not scope_names.dotted_name(target)
    ):
        return None
    if isinstance(target, ast.Attribute) and not (isinstance(target.value, ast.Name) and target.value.id == "self"):
        return None
    inside = {id(n) for n in syntax_tree.walk(one)}
    sizes = [_end_of(source, n) for n in _reads(source, target) if id(n) not in inside]
    return max(size for size in sizes if size) if sizes and all(sizes) else None


def _reads(source: Source, target: ast.expr) -> Sequence[ast.expr]:
    """Every place that reads what is kept under this name: in its scope, of an attribute anywhere in the file."""
    if isinstance(target, ast.Attribute):
        return [
            n for n in call_index.nodes_of_kind(source, ast.Attribute)
            if isinstance(n, ast.Attribute) and n.attr == target.attr and isinstance(n.ctx, ast.Load)
        ]  # fmt: skip
    assert isinstance(target, ast.Name)
    nodes = syntax_tree.walk(source.tree)
    return [n for n in nodes if isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load)]


def _end_of(source: Source, node: ast.expr) -> int | None:
    """The ``1024`` of ``history[-1024:]``, by name too."""
    holder = node_lookup.parents_of(source).get(node)
    if not isinstance(holder, ast.Subscript) or holder.value is not node or not isinstance(holder.ctx, ast.Load):
        return None
    part = holder.slice.elts[0] if isinstance(holder.slice, ast.Tuple) and holder.slice.elts else holder.slice
    if not isinstance(part, ast.Slice) or part.upper is not None or part.step is not None:
        return None
    low = part.lower
    size = (
        setting_origins.literal_int(source, low.operand)
        if isinstance(low, ast.UnaryOp) and isinstance(low.op, ast.USub)
        else None
    )
    return size if size and size > 0 else None
