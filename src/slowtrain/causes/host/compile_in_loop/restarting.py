"""``compile()`` again and again for another rate: once, and then the optimizer that is there begins anew."""

from __future__ import annotations

import ast
from collections.abc import Set

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting

# Optimizers whose variables are all zero before the first step, but for the rate.
FROM_ZERO = frozenset("Adam AdamW Adamax RMSprop SGD Adadelta Lion".split())
# Where one of these stands, a new compile() may do more than begin with a new optimizer.
MORE = frozenset(
    "trainable load_model from_pretrained train_on_batch mixed_precision mixed_float16 LossScaleOptimizer use_ema "
    "schedules run_eagerly jit_compile".split()
)
FIXED = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.expr_context)


def restarted(source: Source, line: int) -> list[Edit]:
    """``compile()`` at ``line`` for the first time only; later the optimizer's state is zero, its rate the new one."""
    call = node_lookup.single_call(source, line, "compile")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    owner, made = (
        scope_names.dotted_name(call.func)[: -len(".compile")],
        node_lookup.argument_value(call, "optimizer", 0),
    )
    every = [c for c in call_index.index_of(source).called("compile") if isinstance(c.func, ast.Attribute)]
    if not owner or not isinstance(made, ast.Call) or any(c is not call and _compiles(source, c) for c in every):
        return []
    given = rate(source, made)
    others = [*call.args[1:], *(k.value for k in call.keywords if k.arg != "optimizer")]
    if _made_here(source, call, owner):
        return []  # another model each time, which has no optimizer yet
    if given is None or any(k.arg is None for k in call.keywords) or not all(fixed(source, one) for one in others):
        return []
    if mentions(source, MORE):
        return []
    return _edits(source, statement, owner, edits.node_text(source, given))


def _made_here(source: Source, call: ast.Call, owner: str) -> bool:
    """Whether the model is made in the turn, or in the call of the function, in which it is compiled."""
    makers = (
        scope_names.binding_statements(source, owner, scope_names.enclosing_scope(source, call))
        if "." not in owner
        else []
    )
    inner = node_lookup.enclosing_function(source, call) is not None
    around = scope_names.enclosing_loops(source, call)
    return any((around or inner) and scope_names.enclosing_loops(source, one) == around for one in makers)


def mentions(source: Source, words: Set[str]) -> bool:
    """Whether one of the words stands anywhere in the file as a name, an argument's name or a text."""
    kinds = (ast.Name, ast.Attribute, ast.keyword, ast.Constant)
    return any(isinstance(n, kinds) and _word(n) in words for n in syntax_tree.walk(source.tree))


def _word(node: ast.AST) -> object:
    for field in ("id", "attr", "arg", "value"):
        if hasattr(node, field):
            return getattr(node, field) if field != "value" or isinstance(node, ast.Constant) else None
    return None


def _compiles(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func) != "re.compile"


def rate(source: Source, made: ast.Call) -> ast.expr | None:
    """The rate given to an optimizer of Keras's that begins at zero, whose other settings are written out."""
    kind = name_bindings.qualified_name(source, made.func)
    if not kind.startswith("keras.optimizers.") or node_lookup.called_name(made) not in FROM_ZERO or len(made.args) > 1:
        return None
    found = node_lookup.argument_value(made, "learning_rate", 0)
    others = [k for k in made.keywords if k.arg != "learning_rate"]
    plain = all(isinstance(k.value, ast.Constant) and k.arg for k in others)
    return found if plain and found is not None and not isinstance(found, ast.Constant) else None


def fixed(source: Source, node: ast.expr) -> bool:
    """Whether an argument is the same in every turn: literals, and losses and metrics of Keras's made of such."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        return name_bindings.qualified_name(source, node.func).startswith("keras.") and all(
            fixed(source, g) for g in given
        )
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(fixed(source, e) for e in node.elts)
    if isinstance(node, ast.Dict):
        return all(fixed(source, v) for v in node.values)
    return isinstance(node, ast.Constant)


def _edits(source: Source, statement: ast.Expr, owner: str, rate: str) -> list[Edit]:
    rows = source.text.split("\n")
    start, stop = statement.lineno, statement.end_lineno or statement.lineno
    indent = rows[start - 1][: statement.col_offset]
    rest = rows[stop - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    if indent.strip() or (rest and not rest.startswith("#")) or extracting.edits_cross_strings([statement]):
        return []
    unit = edits.indentation_unit(source)
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    after = [
        f"{indent}else:",
        f"{indent}{unit}for variable in {owner}.optimizer.variables:",
        f"{indent}{unit}{unit}variable.assign({numpy}.zeros_like(variable.numpy()))",
        f"{indent}{unit}{owner}.optimizer.learning_rate = {rate}",
    ]
    shifts = [edits.insert_text(source, (n, 0), unit) for n in range(start + 1, stop + 1) if rows[n - 1].strip()]
    head = edits.insert_text(source, (start, 0), f'{indent}if getattr({owner}, "optimizer", None) is None:\n{unit}')
    tail = edits.insert_text(source, (stop, len(rows[stop - 1].rstrip("\r").encode())), "\n" + "\n".join(after))
    return [*importing, head, *shifts, tail]
