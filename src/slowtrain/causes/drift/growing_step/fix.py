"""Keeps what each iteration makes longer at its first length: data sets and tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.causes import slowdown_cures
from slowtrain.causes.drift.growing_step import GrowthFinding
from slowtrain.causes.drift.growing_step.growing_values import growing_values
from slowtrain.model import Category, Edit, Effect, Place, Prescription
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.locations import source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

RUNNING_TOTALS = "keep running totals instead of going through the whole history in each step"
CURES = {
    str(Category.PYTHON): RUNNING_TOTALS,
    "line": RUNNING_TOTALS,
    str(Category.CONVERT): "convert to tensors only the new values of each step, not all that were collected",
    str(Category.READBACK): "read back only the new values of each step, not all that were collected",
    str(Category.COMPILE): "give traced functions a fixed shape, or an input_signature with None in its place",
    str(
        Category.INPUT
    ): "build the data set once: a data set that is mapped or concatenated again grows with each iteration",
    str(Category.GC): "keep fewer Python objects alive from step to step: each collection goes through all of them",
    str(Category.CALLBACK): "let the callback add the new values, and not write or draw all that it has collected",
    "call": "pass the step's function no more than it needs: it works on all of a tensor or list that gets longer",
    "graph": "create ops before the loop, and feed what changes; graph.finalize() fails at the line that adds one",
    **slowdown_cures.CURE_BY_REASON,
}
HARMLESS_STAGES = frozenset({"prefetch", "with_options"})  # more of them keep the same elements in the same order
JOINING_OPS = frozenset("tensorflow.concat numpy.concatenate keras.ops.concatenate numpy.vstack".split())


def find_cures(trace: Trace, finding: GrowthFinding) -> Iterable[Prescription]:
    yield from _rebased_dataset_cure(trace, finding.places)
    if edits := recorded_edits.first_applicable(trace, finding.places, keep_newest_rows):
        says = "keep only the newest rows, as many as there were at first"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edits)
    says = CURES.get(finding.kind, "look for what is kept from step to step: lists, tensors, graph nodes, open files")
    yield Prescription("advice", Effect.EXACT, says)


def find_lines(trace: Trace, _finding: GrowthFinding) -> Iterable[Place]:
    """Lines that make a value longer in each step."""
    return source_places.project_places(trace, lambda source: [one.lineno for one, _, _ in growing_values(source)])


def _rebased_dataset_cure(trace: Trace, places: Sequence[Place]) -> Iterable[Prescription]:
    """Builds each iteration's data set on the first one instead of the previous one."""
    is_exact = True

    def edit(source: Source, line: int) -> list[Edit]:
        nonlocal is_exact
        changed, is_exact = rebase_dataset(source, line)
        return changed

    if edits := recorded_edits.first_applicable(trace, places, edit):
        effect = Effect.EXACT if is_exact else Effect.CHANGES_TRAINING  # a map is then applied once to each element
        says = "build the data set of each iteration on the first one, and not on that of the previous iteration"
        yield Prescription("edit", effect, says, edits=edits)


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
    iterations = [n for n in scope_names.enclosing_loops(source, statement) if statement in n.body]
    if (own and function is None) or (not own and not iterations):
        return [], False
    block = scope_names.statement_block(source, statement)
    later_uses = [
        n
        for s in block[block.index(statement) + 1 :]
        for n in syntax_tree.walk(s)
        if scope_names.dotted_name(n) == whole
    ]
    if not later_uses or not _has_no_other_use(source, statement, target, later_uses):
        return [], False
    usual = target.attr if isinstance(target, ast.Attribute) else whole
    name = moved_statements.free_name(source, f"this_{usual}", f"this_turns_{usual}")
    renamed = [
        edits.replace_node(source, n, name) for n in (target, *later_uses) if isinstance(n, (ast.Name, ast.Attribute))
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


def _has_no_other_use(source: Source, statement: ast.Assign, target: ast.expr, later_uses: list[ast.AST]) -> bool:
    """Whether all other uses of the target are those ``behind`` and those that create it at first."""
    allowed = {id(n) for n in later_uses} | {id(n) for n in syntax_tree.walk(statement)}
    if any(not isinstance(getattr(n, "ctx", None), ast.Load) for n in later_uses):
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
    iteration = scope_names.enclosing_loops(source, statement)[0]
    return all(isinstance(n.ctx, ast.Store) and n.lineno < iteration.lineno for n in rest_names)


def _sets_attribute(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(n, ast.Attribute) and n.attr == name and not isinstance(n.ctx, ast.Load)
        for n in syntax_tree.walk(node)
    )


def _dotted_names(node: ast.AST) -> set[str]:
    return {d for n in syntax_tree.walk(node) if (d := scope_names.dotted_name(n))}


def keep_newest_rows(source: Source, line: int) -> list[Edit]:
    """Keeps only the newest rows of ``queue = tf.concat([queue, keys], axis=0)`` in the loop around ``line``.

    It keeps as many rows as the loop started with. Empty if that may be no row.
    """
    found: list[Edit] = []
    joined = [
        n
        for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and _is_in_eager_loop(source, n, line)
    ]
    for one in joined:
        part = _newest_rows_slice(source, one)
        if part is not None and _has_known_start(source, one):
            found += edits.append_to_chain(source, one.value, part)
    return found


def _is_in_eager_loop(source: Source, one: ast.Assign, line: int) -> bool:
    """Whether the assignment is in eager code in a loop that contains ``line``."""
    around = scope_names.enclosing_loops(source, one)
    function = node_lookup.enclosing_function(source, one)
    if not around or (function is not None and graph_obstacles.is_graph_function(source, function)):
        return False
    return any(n.lineno <= line <= (n.end_lineno or 0) for n in around)


def _newest_rows_slice(source: Source, one: ast.Assign) -> str | None:
    """The slice that keeps the number of rows and the newest ones, which are joined after or before the old ones."""
    target, call = one.targets[0], one.value
    if len(one.targets) != 1 or not scope_names.dotted_name(target) or not isinstance(call, ast.Call) or not call.args:
        return None
    whole = scope_names.resolved_name(source, call.func)
    axis = node_lookup.argument_value(call, "axis", 1)
    by_rows = ast.unparse(axis) == "0" if axis is not None else whole in ("numpy.concatenate", "numpy.vstack")
    parts = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else []
    names = [scope_names.dotted_name(p) for p in parts]
    name = scope_names.dotted_name(target)
    if whole not in JOINING_OPS or not by_rows or len(parts) != 2 or names.count(name) != 1:
        return None
    other = parts[1 - names.index(name)]
    if name in {scope_names.dotted_name(n) for n in syntax_tree.walk(other)}:
        return None
    return f"[-{name}.shape[0]:]" if names[0] == name else f"[:{name}.shape[0]]"


def _has_known_start(source: Source, one: ast.Assign) -> bool:
    """Whether the name has one assignment before the loop, whose text shows that it has rows."""
    target = one.targets[0]
    if not isinstance(target, ast.Name):
        return False
    loop = scope_names.enclosing_loops(source, one)[-1]
    found = scope_names.binding_statements(source, target.id, scope_names.enclosing_scope(source, one))
    before = [n for n in found if n is not one]
    if len(before) != 1 or not isinstance(before[0], ast.Assign) or scope_names.enclosing_loops(source, before[0]):
        return False
    value = before[0].value
    empty = any(isinstance(n, ast.Constant) and n.value in (0, None) for n in _first_sizes(value))
    listed = any(isinstance(n, (ast.List, ast.Tuple)) and not n.elts for n in syntax_tree.walk(value))
    return (
        before[0].lineno < loop.lineno
        and isinstance(value, ast.Call)
        and bool(_first_sizes(value))
        and not empty
        and not listed
    )


def _first_sizes(value: ast.expr) -> list[ast.expr]:
    """The first size of each shape in an expression: ``cfg.bank`` for ``[cfg.bank, cfg.dim]``."""
    shapes = [n for n in syntax_tree.walk(value) if isinstance(n, (ast.List, ast.Tuple)) and len(n.elts) > 1]
    return [n.elts[0] for n in shapes]
