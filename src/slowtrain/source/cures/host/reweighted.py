"""``compile()`` again and again for other weights of the losses: once, with variables that each turn assigns to."""

from __future__ import annotations

import ast
import re

from slowtrain.model import Edit
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting
from slowtrain.source.cures.host import restarting

SAVES = frozenset({"save", "save_model", "ModelCheckpoint", "get_compile_config"})  # write down how it was compiled


def reweighted(source: Source, line: int) -> list[Edit]:
    """``compile()`` at ``line`` before its loop; nothing where a turn changes more than the losses' weights.

    The optimizer has to be one that all turns share: a new one would begin anew in each.
    """
    call = node_lookup.single_call(source, line, "compile")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    loops = scope_names.enclosing_loops(source, statement)
    if not loops or scope_names.statement_block(source, statement) is not loops[0].body or len(loops[0].body) < 2:
        return []
    given, loop = node_lookup.argument_value(call, "loss_weights"), loops[0]
    if given is None or not _shared(source, call, loop) or restarting.mentions(source, restarting.MORE | SAVES):
        return []
    tensorflow, importing = edits.ensure_import(source, "tensorflow", "tf")
    name = extracting.free_name(source, "loss_weights", "live_loss_weights")
    first, compiled = _first(source, given, loop, tensorflow), _with(source, call, given, name)
    if not first or not compiled or extracting.edits_cross_strings([statement, loop]):
        return []
    made = f"{name} = {first}"
    lambdas = "lambda kept, new: kept.assign(float(new))"
    assigned = f"{tensorflow}.nest.map_structure({lambdas}, {name}, {edits.node_text(source, given)})"
    return [
        *importing,
        edits.insert_before(source, loop, f"{made}\n{compiled}"),
        edits.replace_node(source, statement, assigned),
    ]


def _shared(source: Source, call: ast.Call, loop: ast.For | ast.While) -> bool:
    """Whether the model, its optimizer and all else that it is compiled with are the same in every turn."""
    owner, optimizer = call.func, node_lookup.argument_value(call, "optimizer", 0)
    if not isinstance(owner, ast.Attribute) or optimizer is None or any(k.arg is None for k in call.keywords):
        return False
    bound = scope_names.bound_names(loop)
    stored = {
        scope_names.dotted_name(n)
        for n in syntax_tree.walk(loop)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    for one in (owner.value, optimizer):
        name = scope_names.dotted_name(one)
        if not name or name in stored or name.partition(".")[0] in bound:
            return False
    rest = [*call.args[1:], *(k.value for k in call.keywords if k.arg not in ("optimizer", "loss_weights"))]
    return all(_same(source, one) for one in rest)


def _same(source: Source, node: ast.expr) -> bool:
    """What ``restarting.fixed`` knows, and mappings and lists made of it for each of some written names."""
    if isinstance(node, (ast.ListComp, ast.DictComp)) and len(node.generators) == 1:
        turn = node.generators[0]
        made = node.value if isinstance(node, ast.DictComp) else node.elt
        names = scope_names.bound_names(turn.target)
        parts = made.elts if isinstance(made, (ast.List, ast.Tuple)) else [made]
        plain = all((isinstance(p, ast.Name) and p.id in names) or restarting.fixed(source, p) for p in parts)
        written = setting_origins.written_value(source, turn.iter)
        return plain and not turn.ifs and isinstance(written, (ast.List, ast.Tuple, ast.Dict))
    return restarting.fixed(source, node)


def _first(source: Source, given: ast.expr, loop: ast.For | ast.While, tensorflow: str) -> str:
    """Variables in the form of the weights: of those that are there before the loop, or as they are written."""
    variable = f"{tensorflow}.Variable"
    if (
        isinstance(given, (ast.List, ast.Tuple))
        and given.elts
        and not any(isinstance(e, ast.Starred) for e in given.elts)
    ):
        return f"[{variable}(0.0, trainable=False) for _ in range({len(given.elts)})]"
    if isinstance(given, ast.Dict) and given.keys and all(isinstance(k, ast.Constant) for k in given.keys):
        keys = ", ".join(edits.node_text(source, k) for k in given.keys if k is not None)
        return f"{{key: {variable}(0.0, trainable=False) for key in ({keys},)}}"
    if not isinstance(given, ast.Name):
        return ""
    scope = scope_names.enclosing_scope(source, loop)
    made = [n for n in scope_names.binding_statements(source, given.id, scope) if _before(source, n, loop)]
    wanted = f"{tensorflow}.nest.map_structure(lambda weight: {variable}(float(weight), trainable=False), {given.id})"
    return wanted if made or given.id in scope_names.parameter_names(scope) else ""


def _before(source: Source, node: ast.AST, loop: ast.For | ast.While) -> bool:
    """Whether it stands before the loop, where no test decides whether it is run."""
    return (
        isinstance(node, ast.stmt)
        and node.lineno < loop.lineno
        and (
            scope_names.statement_block(source, node) is scope_names.statement_block(source, loop)
            or not isinstance(node_lookup.parents_of(source).get(node), (ast.If, ast.For, ast.While, ast.Try))
        )
    )


def _with(source: Source, call: ast.Call, given: ast.expr, name: str) -> str:
    """The call with the variables in place of the weights, its further lines without their indentation.

    Nothing where the weights do not follow their name: in brackets of their own, or behind a comment.
    """
    old = re.escape(edits.node_text(source, given))
    whole, found = re.subn(
        rf"\bloss_weights\s*=\s*{old}", f"loss_weights={name}", edits.node_text(source, call), count=1
    )
    inner = source.text.split("\n")[call.lineno - 1][: call.col_offset]
    return "\n".join(row.removeprefix(inner) for row in whole.split("\n")) if found else ""
