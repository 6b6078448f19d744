"""Draws by weights that stay the same: summed up once, not anew in every draw."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.input.generators import CHANGING, written_to

GENERATORS = ("numpy.random.default_rng", "numpy.random.Generator")
COUNTED = frozenset({"range", "arange", "integers", "randint", "Embedding", "zeros", "ones"})


def summed_once(source: Source, line: int) -> list[Edit]:
    """``rng.choice(n, p=self.weights)`` at ``line``, or in what is called there, as a look-up in sums made once.

    NumPy's ``choice`` checks and sums up its weights in every call, draws numbers between 0 and 1, and looks them up
    in the sums: so does this, with the same numbers.
    """
    function = source.function_at(line)
    for part in source.called(function) if function is not None else ():
        for call in (
            n for n in syntax_tree.walk(part) if isinstance(n, ast.Call) and node_lookup.called_name(n) == "choice"
        ):
            made = _looked_up(source, call)
            if made:
                return made
    return []


def _looked_up(source: Source, call: ast.Call) -> list[Edit]:
    weights, options = node_lookup.argument_value(call, "p", 3), node_lookup.argument_value(call, "a", 0)
    size = node_lookup.argument_value(call, "size", 1)
    named = {k.arg for k in call.keywords}
    if weights is None or options is None or len(call.args) > 2 or not named <= {"p", "a", "size"}:
        return []
    drawn = _numbers(source, call.func)
    made = _made(source, weights)
    if drawn is None or made is None or not _number(source, options) or _changes(source, weights):
        return []
    sums = f"{edits.node_text(source, weights)}_sums"
    if sums.rpartition(".")[2] in source.text:
        return []
    np, also = edits.ensure_import(source, "numpy", "np")
    given = edits.node_text(source, size) if size is not None else ""
    text = f'{sums}.searchsorted({drawn}({given}), side="right")'
    rows = f"{sums} = {np}.cumsum({edits.node_text(source, weights)}, dtype={np}.float64)\n{sums} /= {sums}[-1]"
    one = size is None or (isinstance(size, ast.Constant) and size.value is None)
    holder = node_lookup.parents_of(source).get(call)
    one = one and not (isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) == "int")
    return [
        *also,
        edits.insert_after(source, made, rows),
        edits.replace_node(source, call, f"int({text})" if one else text),
    ]


def _numbers(source: Source, func: ast.expr) -> str | None:
    """The method that draws numbers between 0 and 1 from the same generator as ``choice``."""
    owner = func.value if isinstance(func, ast.Attribute) else None
    if owner is None:
        return None
    text = edits.node_text(source, owner)
    if name_bindings.qualified_name(source, owner) == "numpy.random":
        return f"{text}.random_sample"
    kinds = {
        name_bindings.qualified_name(source, n.func) if isinstance(n, ast.Call) else "" for n in _given(source, owner)
    }
    if kinds and kinds <= set(GENERATORS):
        return f"{text}.random"
    return f"{text}.random_sample" if kinds == {"numpy.random.RandomState"} else None


def _given(source: Source, node: ast.expr) -> Iterator[ast.expr | None]:
    """All that a name, or an attribute of the object itself, is ever set to in the file."""
    for statement in _stores(source, node):
        yield statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None


def _stores(source: Source, node: ast.expr) -> list[ast.AST]:
    name = scope_names.dotted_name(node)
    above = node_lookup.parents_of(source)
    if isinstance(node, ast.Name):
        found: list[ast.AST] = [*name_bindings.bindings_of(name_bindings.binding_scope(source, node, node.id), node.id)]
    elif name.startswith("self.") and name.count(".") == 1:
        every = (
            n
            for n in call_index.nodes_of_kind(source, ast.Attribute)
            if isinstance(n, ast.Attribute) and n.attr == name[5:]
        )
        found = [n for n in every if not isinstance(n.ctx, ast.Load)]
    else:
        return [node]
    return [above.get(n) or n for n in found]


def _made(source: Source, weights: ast.expr) -> ast.stmt | None:
    """The one statement that sets the weights: of the object as it is made, of the module, none in a loop."""
    found = _stores(source, weights)
    statement = found[0] if len(found) == 1 else None
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or scope_names.enclosing_loops(source, statement)
    ):
        return None
    holder = node_lookup.enclosing_function(source, statement)
    plain = isinstance(statement.targets[0], (ast.Name, ast.Attribute))
    above = node_lookup.parents_of(source).get(statement)
    where = above is source.tree if isinstance(weights, ast.Name) else getattr(holder, "name", "") == "__init__"
    return statement if plain and where and above in (source.tree, holder) else None


def _changes(source: Source, weights: ast.expr) -> bool:
    """Whether something in the file may change the weights in place."""
    name = scope_names.dotted_name(weights).rpartition(".")[2]

    def is_weights(node: ast.expr) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        return scope_names.dotted_name(node).rpartition(".")[2] == name

    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and is_weights(node):
            return True
        if isinstance(node, ast.AugAssign) and is_weights(node.target):
            return True
        if isinstance(node, ast.Call):
            method = node.func if isinstance(node.func, ast.Attribute) else None
            if (
                method is not None
                and method.attr in CHANGING
                and (is_weights(method.value) or any(is_weights(a) for a in node.args))
            ):
                return True
            if name in written_to(node):
                return True
    return False


def _number(source: Source, node: ast.expr, depth: int = 3) -> bool:
    """Whether the options are a number of them: what they are is then their place."""
    if setting_origins.literal_int(source, node) is not None:
        return True
    if isinstance(node, ast.Call):
        return node_lookup.called_name(node) in ("len", "int")
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    name = scope_names.dotted_name(node)
    if not name or not depth:
        return False
    for call in call_index.nodes_of_kind(source, ast.Call):
        if isinstance(call, ast.Call):
            counts = [*(k.value for k in call.keywords if k.arg in ("minlength", "input_dim", "num_classes"))]
            counts += call.args[:1] if node_lookup.called_name(call) in COUNTED else []
            if any(scope_names.dotted_name(c) == name for c in counts):
                return True
    given = list(_given(source, node))
    return bool(given) and all(g is not None and _number(source, g, depth - 1) for g in given)
