"""Replaces a repeated ``compile()`` for another learning rate by one, and a reset of its optimizer."""

from __future__ import annotations

import ast
from collections.abc import Set

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Optimizers whose variables are all zero before the first step, except the rate.
ZERO_STATE_OPTIMIZERS = frozenset("Adam AdamW Adamax RMSprop SGD Adadelta Lion".split())
# In a file with one of these, a new compile() may do more than start with a new optimizer.
STATEFUL_WORDS = frozenset(
    "trainable load_model from_pretrained train_on_batch mixed_precision mixed_float16 LossScaleOptimizer use_ema "
    "schedules run_eagerly jit_compile".split()
)
FIXED = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.expr_context)


def reset_optimizer(source: Source, line: int) -> list[Edit]:
    """Runs ``compile()`` at ``line`` once. Later iterations reset the optimizer's state to zero and set the rate."""
    call = node_lookup.single_call(source, line, "compile")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    owner, made = (
        scope_names.dotted_name(call.func)[: -len(".compile")],
        node_lookup.argument_value(call, "optimizer", 0),
    )
    every = [c for c in call_index.index_of(source).called("compile") if isinstance(c.func, ast.Attribute)]
    if not owner or not isinstance(made, ast.Call) or any(c is not call and _compiles_model(source, c) for c in every):
        return []
    given = variable_rate(source, made)
    others = [*call.args[1:], *(k.value for k in call.keywords if k.arg != "optimizer")]
    if _is_created_here(source, call, owner):
        return []  # a new model has no optimizer yet
    if (
        given is None
        or any(k.arg is None for k in call.keywords)
        or not all(is_constant(source, one) for one in others)
    ):
        return []
    if mentions_any(source, STATEFUL_WORDS):
        return []
    return _reset_edits(source, statement, owner, edits.node_text(source, given))


def _is_created_here(source: Source, call: ast.Call, owner: str) -> bool:
    """Whether the model is created in the same iteration or function call in which it is compiled."""
    makers = (
        scope_names.binding_statements(source, owner, scope_names.enclosing_scope(source, call))
        if "." not in owner
        else []
    )
    inner = node_lookup.enclosing_function(source, call) is not None
    around = scope_names.enclosing_loops(source, call)
    return any((around or inner) and scope_names.enclosing_loops(source, one) == around for one in makers)


def mentions_any(source: Source, words: Set[str]) -> bool:
    """Whether one of the words is anywhere in the file as a name, an argument's name or a string."""
    kinds = (ast.Name, ast.Attribute, ast.keyword, ast.Constant)
    return any(isinstance(n, kinds) and _name_in(n) in words for n in syntax_tree.walk(source.tree))


def _name_in(node: ast.AST) -> object:
    for field in ("id", "attr", "arg", "value"):
        if hasattr(node, field):
            return getattr(node, field) if field != "value" or isinstance(node, ast.Constant) else None
    return None


def _compiles_model(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func) != "re.compile"


def variable_rate(source: Source, made: ast.Call) -> ast.expr | None:
    """The learning rate of a Keras optimizer with zero state if it is not a literal and all other settings are."""
    kind = name_bindings.qualified_name(source, made.func)
    if (
        not kind.startswith("keras.optimizers.")
        or node_lookup.called_name(made) not in ZERO_STATE_OPTIMIZERS
        or len(made.args) > 1
    ):
        return None
    found = node_lookup.argument_value(made, "learning_rate", 0)
    others = [k for k in made.keywords if k.arg != "learning_rate"]
    plain = all(isinstance(k.value, ast.Constant) and k.arg for k in others)
    return found if plain and found is not None and not isinstance(found, ast.Constant) else None


def is_constant(source: Source, node: ast.expr) -> bool:
    """Whether an argument is the same in every iteration: a literal, or a loss or metric of Keras made of literals."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        return name_bindings.qualified_name(source, node.func).startswith("keras.") and all(
            is_constant(source, g) for g in given
        )
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(is_constant(source, e) for e in node.elts)
    if isinstance(node, ast.Dict):
        return all(is_constant(source, v) for v in node.values)
    return isinstance(node, ast.Constant)


def _reset_edits(source: Source, statement: ast.Expr, owner: str, variable_rate: str) -> list[Edit]:
    rows = source.text.split("\n")
    start, stop = statement.lineno, statement.end_lineno or statement.lineno
    indent = rows[start - 1][: statement.col_offset]
    rest = rows[stop - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    if indent.strip() or (rest and not rest.startswith("#")) or moved_statements.edits_cross_strings([statement]):
        return []
    unit = edits.indentation_unit(source)
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    after = [
        f"{indent}else:",
        f"{indent}{unit}for variable in {owner}.optimizer.variables:",
        f"{indent}{unit}{unit}variable.assign({numpy}.zeros_like(variable.numpy()))",
        f"{indent}{unit}{owner}.optimizer.learning_rate = {variable_rate}",
    ]
    shifts = [edits.insert_text(source, (n, 0), unit) for n in range(start + 1, stop + 1) if rows[n - 1].strip()]
    head = edits.insert_text(source, (start, 0), f'{indent}if getattr({owner}, "optimizer", None) is None:\n{unit}')
    tail = edits.insert_text(source, (stop, len(rows[stop - 1].rstrip("\r").encode())), "\n" + "\n".join(after))
    return [*importing, head, *shifts, tail]
