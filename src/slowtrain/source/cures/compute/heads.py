"""Layers that go through their parts in a Python loop, each part with a matrix of its own: one product for all."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

UNARY = frozenset(f"tensorflow.{name}" for name in (
    "nn.relu", "nn.sigmoid", "nn.tanh", "nn.gelu", "nn.elu", "nn.selu", "nn.softplus", "nn.silu", "nn.leaky_relu",
    "tanh", "sigmoid", "exp", "square", "abs", "identity"))  # fmt: skip
JOINED = {"tensorflow.concat": ("1", "-1"), "tensorflow.stack": ("1",)}
# Of weights in one piece these see other norms, or other names.
BY_VARIABLE = (
    "clipnorm",
    "clip_by_norm",
    "Lamb",
    "LARS",
    "Adafactor",
    "Muon",
    "load_weights",
    "load_model",
    "set_weights",
)


class Unclear(Exception):
    """Something in the loop is none of what is known to mean the same for all parts at once."""


@dataclass
class Loop:
    """``for part in range(count)`` with what has been assigned in it, over all parts."""

    source: Source
    part: str
    count: str
    tf: str
    known: dict[str, str] = field(default_factory=dict)
    weights: dict[str, ast.ListComp] = field(default_factory=dict)
    width: str = ""  # the last dimension of the last product

    def over(self, node: ast.expr) -> str:
        """An expression on one part, over all: an axis more, behind the batch."""
        if isinstance(node, ast.Name) and node.id in self.known:
            return self.known[node.id]
        if isinstance(node, ast.Subscript) and not self.mentions(node.value) and self.is_part(node.slice):
            return edits.node_text(self.source, node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return self.product(node.left, node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return f"{self.over(node.left)} + {self.stacked(node.right, 1)}"
        if isinstance(node, ast.Call) and not node.keywords:
            name = name_bindings.qualified_name(self.source, node.func)
            if name in UNARY and len(node.args) == 1:
                return f"{edits.node_text(self.source, node.func)}({self.over(node.args[0])})"
            if name in ("tensorflow.matmul", "tensorflow.linalg.matmul") and len(node.args) == 2:
                return self.product(node.args[0], node.args[1])
        raise Unclear

    def product(self, left: ast.expr, right: ast.expr) -> str:
        operand = self.over(left)
        return f'{self.tf}.einsum("bpi,pij->bpj", {operand}, {self.stacked(right, 2)})'

    def stacked(self, node: ast.expr, rank: int) -> str:
        """``self.w[part]`` of a list of weights as the weights of all parts in one."""
        if not isinstance(node, ast.Subscript) or ast.unparse(node.slice) != self.part:
            raise Unclear
        name = ast.unparse(node.value)
        made = _weights(self.source, name)
        shape = find.argument_value(made.elt, "shape") if made is not None and isinstance(made.elt, ast.Call) else None
        counted = made is not None and ast.unparse(made.generators[0].iter) == f"range({self.count})"
        if made is None or not isinstance(shape, (ast.Tuple, ast.List)) or len(shape.elts) != rank or not counted:
            raise Unclear
        self.weights[name] = made
        self.width = ast.unparse(shape.elts[-1])
        return name

    def is_part(self, index: ast.expr) -> bool:
        """``[:, part]`` or ``[:, part, :]``."""
        return ast.unparse(index).strip("()") in (f":, {self.part}", f":, {self.part}, :")

    def mentions(self, node: ast.AST) -> bool:
        inner = {self.part, *self.known}
        return any(isinstance(n, ast.Name) and n.id in inner for n in syntax_tree.walk(node))


def together(source: Source, line: int) -> tuple[Edit, ...]:
    """All parts at once instead of the loop around ``line``; nothing where it is not certain to be the same."""
    loops = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.For) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    node = max(loops, key=lambda n: n.lineno, default=None)
    if node is None or node.orelse or any(word in source.text for word in BY_VARIABLE) or not _three_dimensions(source):
        return ()
    call = node.iter
    if not isinstance(node.target, ast.Name) or not isinstance(call, ast.Call) or ast.unparse(call.func) != "range":
        return ()
    if len(call.args) != 1:
        return ()
    tf, more = edits.ensure_import(source, "tensorflow", "tf")
    loop = Loop(source, node.target.id, ast.unparse(call.args[0]), tf)
    try:
        return (*_joined(loop, node), *_in_one(loop), *more)
    except Unclear:
        return ()


def _joined(loop: Loop, node: ast.For) -> list[Edit]:
    """The loop's statements over all parts, and what joins the parts."""
    source, rows = loop.source, []
    for statement in node.body[:-1]:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            raise Unclear
        rows.append(f"{target.id} = {loop.over(statement.value)}")
        loop.known[target.id] = target.id
    last = node.body[-1]
    added = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(added, ast.Call) or find.called_name(added) != "append" or len(added.args) != 1:
        raise Unclear
    name = (
        added.func.value.id if isinstance(added.func, ast.Attribute) and isinstance(added.func.value, ast.Name) else ""
    )
    function = find.enclosing_function(source, node)
    begun = [
        n
        for n in syntax_tree.walk(function or source.tree)
        if isinstance(n, ast.Assign) and ast.unparse(n) == f"{name} = []"
    ]
    read = [
        n
        for n in name_bindings.reads_of(source, name)
        if find.enclosing_function(source, n) is function and n.lineno > node.lineno
    ]
    read = [n for n in read if n.lineno > (node.end_lineno or 0)]
    joining = find.parents_of(source).get(read[0]) if len(read) == 1 else None
    if len(begun) != 1 or not isinstance(joining, ast.Call) or joining.args[:1] != read:
        raise Unclear
    kind = name_bindings.qualified_name(source, joining.func)
    axis = find.argument_value(joining, "axis", 1)
    if kind not in JOINED or axis is None or ast.unparse(axis) not in JOINED[kind]:
        raise Unclear
    result = loop.over(added.args[0])
    if kind == "tensorflow.concat":
        flat = f"{loop.tf}.squeeze({name}, axis=-1)"
        flat = flat if loop.width == "1" else f"{loop.tf}.reshape({name}, [-1, {loop.count} * {loop.width}])"
    else:
        flat = name
    indent = " " * node.col_offset
    text = f"\n{indent}".join([*rows, f"{name} = {result}"])
    return [
        edits.remove_statement(source, begun[0]),
        edits.replace_node(source, node, text),
        edits.replace_node(source, joining, flat),
    ]


def _in_one(loop: Loop) -> list[Edit]:
    """Each list of weights as one weight, which begins with the values that the list's would have."""
    done = []
    for name, made in loop.weights.items():
        last = name.rpartition(".")[2]
        used = [n for n in syntax_tree.walk(loop.source.tree)
                if isinstance(n, ast.Attribute) and n.attr == last and isinstance(n.ctx, ast.Load)]  # fmt: skip
        inside = [n for n in used if isinstance(find.parents_of(loop.source).get(n), ast.Subscript)]
        call = made.elt
        if not isinstance(call, ast.Call) or len(used) != 1 or len(inside) != 1:
            raise Unclear
        shape, given = find.argument_value(call, "shape"), find.argument_value(call, "initializer")
        if not isinstance(shape, (ast.Tuple, ast.List)) or any(
            k.arg not in ("shape", "initializer") for k in call.keywords
        ):
            raise Unclear
        if call.args or not isinstance(call.func, ast.Attribute):
            raise Unclear
        maker = name_bindings.single_assignment(loop.source, given) if isinstance(given, ast.Name) else None
        known = edits.node_text(loop.source, given) if given is not None and isinstance(maker, ast.Call) else None
        if known is None:  # by name, or the usual one
            text = edits.node_text(loop.source, given) if given is not None else '"glorot_uniform"'
            known = f"{loop.tf}.keras.initializers.get({text})"
        parts = f"{loop.tf}.stack([{known}(shape[1:], dtype) for _ in range(shape[0])])"
        sizes = ", ".join([loop.count, *(edits.node_text(loop.source, e) for e in shape.elts)])
        one = (
            f"{edits.node_text(loop.source, call.func)}(shape=({sizes}), initializer=lambda shape, dtype=None: {parts})"
        )
        done.append(edits.replace_node(loop.source, made, one))
    return done


def _weights(source: Source, name: str) -> ast.ListComp | None:
    """``[self.add_weight(...) for _ in range(n)]``, of which the attribute ``name`` has its value."""
    found = [n.value for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Assign)
             and any(ast.unparse(t) == name for t in n.targets)]  # fmt: skip
    made = found[0] if len(found) == 1 else None
    if not isinstance(made, ast.ListComp) or len(made.generators) != 1 or made.generators[0].ifs:
        return None
    plain = isinstance(made.elt, ast.Call) and find.called_name(made.elt) == "add_weight"
    target = made.generators[0].target
    varied = any(isinstance(n, ast.Name) and n.id == ast.unparse(target) for n in syntax_tree.walk(made.elt))
    return made if plain and name.startswith("self.") and not varied else None


def _three_dimensions(source: Source) -> bool:
    """Whether all the file's inputs are a matrix for each sample."""
    inputs = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)
              and name_bindings.qualified_name(source, n.func) in ("keras.Input", "keras.layers.Input")]  # fmt: skip
    shapes = [find.argument_value(n, "shape", 0) for n in inputs]
    return bool(shapes) and all(isinstance(s, (ast.Tuple, ast.List)) and len(s.elts) == 2 for s in shapes)


def outputs(source: Source, line: int) -> str:
    """What to do with a model of very many outputs, compiled or fitted at ``line``; nothing where it has few."""
    calls = find.calls_at_line(source, line, "compile", "fit")
    models = {ast.unparse(c.func.value) for c in calls if isinstance(c.func, ast.Attribute)}
    for call in (
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and find.called_name(n) == "compile"
    ):
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        loss = find.argument_value(call, "loss", 1)
        if owner not in models or not isinstance(loss, (ast.DictComp, ast.ListComp)):
            continue
        over = ast.unparse(loss.generators[0].iter)
        return (
            f"give the model one output with a column for each of `{over}` (layers.EinsumDense for all heads at once), "
            "and that one loss and one metric, in place of an output, a loss and a metric for each"
        )
    return ""
