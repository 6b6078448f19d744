"""``compile()`` again and again for another rate: once, and then the optimizer that is there begins anew."""

from __future__ import annotations

import ast
from collections.abc import Set

from slowtrain.model import Edit
from slowtrain.source import Source, edits, trees
from slowtrain.source.cures import extracting
from slowtrain.source.reading import finding, index, scopes, values

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
    call = finding.only(source, line, "compile")
    statement = finding.statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    owner, made = scopes.dotted(call.func)[: -len(".compile")], finding.keyword(call, "optimizer", 0)
    every = [c for c in index.of(source).called("compile") if isinstance(c.func, ast.Attribute)]
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
    return _edits(source, statement, owner, edits.written(source, given))


def _made_here(source: Source, call: ast.Call, owner: str) -> bool:
    """Whether the model is made in the turn, or in the call of the function, in which it is compiled."""
    makers = scopes.binders(source, owner, scopes.scope(source, call)) if "." not in owner else []
    inner = finding.function(source, call) is not None
    around = scopes.loops(source, call)
    return any((around or inner) and scopes.loops(source, one) == around for one in makers)


def mentions(source: Source, words: Set[str]) -> bool:
    """Whether one of the words stands anywhere in the file as a name, an argument's name or a text."""
    kinds = (ast.Name, ast.Attribute, ast.keyword, ast.Constant)
    return any(isinstance(n, kinds) and _word(n) in words for n in trees.walk(source.tree))


def _word(node: ast.AST) -> object:
    for field in ("id", "attr", "arg", "value"):
        if hasattr(node, field):
            return getattr(node, field) if field != "value" or isinstance(node, ast.Constant) else None
    return None


def _compiles(source: Source, call: ast.Call) -> bool:
    return values.qualified(source, call.func) != "re.compile"


def rate(source: Source, made: ast.Call) -> ast.expr | None:
    """The rate given to an optimizer of Keras's that begins at zero, whose other settings are written out."""
    kind = values.qualified(source, made.func)
    if not kind.startswith("keras.optimizers.") or finding.called(made) not in FROM_ZERO or len(made.args) > 1:
        return None
    found = finding.keyword(made, "learning_rate", 0)
    others = [k for k in made.keywords if k.arg != "learning_rate"]
    plain = all(isinstance(k.value, ast.Constant) and k.arg for k in others)
    return found if plain and found is not None and not isinstance(found, ast.Constant) else None


def fixed(source: Source, node: ast.expr) -> bool:
    """Whether an argument is the same in every turn: literals, and losses and metrics of Keras's made of such."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        return values.qualified(source, node.func).startswith("keras.") and all(fixed(source, g) for g in given)
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
    unit = edits.unit(source)
    numpy, importing = edits.imported(source, "numpy", "np")
    after = [
        f"{indent}else:",
        f"{indent}{unit}for variable in {owner}.optimizer.variables:",
        f"{indent}{unit}{unit}variable.assign({numpy}.zeros_like(variable.numpy()))",
        f"{indent}{unit}{owner}.optimizer.learning_rate = {rate}",
    ]
    shifts = [edits.insert(source, (n, 0), unit) for n in range(start + 1, stop + 1) if rows[n - 1].strip()]
    head = edits.insert(source, (start, 0), f'{indent}if getattr({owner}, "optimizer", None) is None:\n{unit}')
    tail = edits.insert(source, (stop, len(rows[stop - 1].rstrip("\r").encode())), "\n" + "\n".join(after))
    return [*importing, head, *shifts, tail]
