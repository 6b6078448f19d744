"""Gradients of tables that a script makes dense itself, though its optimizer would update only the rows used."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings, scope_names
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

PLAIN_SGD = frozenset({"learning_rate", "lr", "name"})
# What takes the gradient of rows as it is; a row that a batch has twice counts as two rows in a norm.
CLIPS = frozenset({"tensorflow.clip_by_norm"})


def rows_kept(source: Source) -> tuple[Edit, ...]:
    """``tf.convert_to_tensor(g)`` of gradients as ``g``, where plain SGD is the file's one optimizer."""
    made = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and _optimizer(source, n)]
    if len(made) != 1 or find.called_name(made[0]) != "SGD":
        return ()
    if len(made[0].args) > 1 or any(k.arg not in PLAIN_SGD for k in made[0].keywords):
        return ()  # momentum moves every row in each step
    done = []
    for call in (n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)):
        if name_bindings.qualified_name(source, call.func) != "tensorflow.convert_to_tensor" or len(call.args) != 1:
            continue
        given = call.args[0]
        if not call.keywords and isinstance(given, ast.Name) and _gradient(source, call, given):
            done.append(edits.replace_node(source, call, given.id))
    return tuple(done)


def _optimizer(source: Source, call: ast.Call) -> bool:
    name = name_bindings.qualified_name(source, call.func)
    return name.startswith(("keras.optimizers.", "tensorflow.keras.optimizers.")) and "schedules" not in name


def _gradient(source: Source, call: ast.Call, given: ast.Name) -> bool:
    """Whether ``given`` is one gradient after the other, and goes to the optimizer or a clip that takes rows."""
    above = find.parents_of(source)
    holder: ast.AST | None = above.get(call)
    if isinstance(holder, ast.Call):
        if name_bindings.qualified_name(source, holder.func) not in CLIPS:
            return False
        if holder.args[:1] != [call]:
            return False
        holder = above.get(holder)
    if not isinstance(holder, ast.ListComp) or len(holder.generators) != 1:
        return False
    loop = holder.generators[0]
    if scope_names.dotted_name(loop.target) != given.id or loop.ifs or not isinstance(loop.iter, ast.Name):
        return False
    function = find.enclosing_function(source, call)
    taken = [
        n for n in syntax_tree.walk(function or source.tree)
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and find.called_name(n.value) == "gradient"
        and any(scope_names.dotted_name(t) == loop.iter.id for t in n.targets)
    ]  # fmt: skip
    return len(taken) == 1 and _applied(source, holder)


def _applied(source: Source, made: ast.ListComp) -> bool:
    """Whether the list goes to ``apply_gradients(zip(grads, ...))`` or ``apply(grads, ...)`` and nowhere else."""
    above = find.parents_of(source)
    holder = above.get(made)
    uses: list[ast.AST] = [made]
    if isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
        block = scope_names.statement_block(source, holder)
        name = holder.targets[0].id
        behind = [n for s in block[block.index(holder) + 1 :] for n in syntax_tree.walk(s)]
        uses = [n for n in behind if isinstance(n, ast.Name) and n.id == name]
    return len(uses) == 1 and _to_optimizer(above.get(uses[0]), above.get(above.get(uses[0]) or made))


def _to_optimizer(inner: ast.AST | None, outer: ast.AST | None) -> bool:
    zipped = isinstance(inner, ast.Call) and scope_names.dotted_name(inner.func) == "zip"
    last = outer if zipped else inner
    return isinstance(last, ast.Call) and find.called_name(last) in ("apply_gradients", "apply")
