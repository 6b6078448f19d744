"""Loops of a step that do the same for each row, one after the other: all rows at once with ``tf.vectorized_map``."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting

# Of TensorFlow's functions those that work on many rows as on one, and draw nothing.
FUNCTIONS = frozenset(
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_logsumexp reduce_std reduce_variance exp log "
    "log1p sqrt rsqrt square abs sign maximum minimum where cast matmul norm l2_normalize softmax log_softmax "
    "sigmoid relu tanh expand_dims concat stack transpose squeeze add subtract multiply divide divide_no_nan pow "
    "clip_by_value cos sin softplus squared_difference greater less equal not_equal greater_equal less_equal "
    "logical_and logical_or logical_not einsum tensordot".split()
)
LEAVING = frozenset({"reduce_logsumexp", "reduce_max"})  # of which the least number of all changes nothing
NODES = (
    ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple,
    ast.List, ast.Compare, ast.Subscript, ast.Slice, ast.Call, ast.keyword, ast.Attribute,
)  # fmt: skip
COUNTING = (ast.Add, ast.Mult, ast.Mod, ast.FloorDiv)  # of an index, which stays 0 or more


class Unclear(Exception):
    """The loop is none of those known to be the same at once."""


def at_once(source: Source, line: int) -> tuple[Edit, ...]:
    """The innermost loop over rows around ``line`` as one ``tf.vectorized_map``."""
    function = source.function_at(line)
    loops = [n for n in syntax_tree.walk(function) if isinstance(n, ast.For)] if function is not None else []
    around = [n for n in loops if n.lineno <= line <= (n.end_lineno or n.lineno)]
    for loop in sorted(around, key=lambda n: -n.lineno):
        try:
            return tuple(_Rows(source, loop).written())
        except Unclear:
            continue
    return ()


class _Rows:
    """``for i in range(n)``: statements that make one row's part, and what becomes of it."""

    def __init__(self, source: Source, loop: ast.For) -> None:
        self.source, self.loop = source, loop
        over = loop.iter
        ranged = isinstance(over, ast.Call) and scope_names.dotted_name(over.func) == "range" and len(over.args) == 1
        if not ranged or loop.orelse or not isinstance(loop.target, ast.Name) or not isinstance(over, ast.Call):
            raise Unclear("another loop")
        self.index, self.count = loop.target.id, over.args[0]
        self.block = scope_names.statement_block(source, loop)
        self.tf = scope_names.module_alias(source, "tensorflow")
        self.made: set[str] = set()
        if not self.tf or len(self.block) < 3 or self.block.index(loop) == 0:
            raise Unclear("nothing around it")

    def written(self) -> list[Edit]:
        *steps, last = self.loop.body
        rows = []
        for one in steps:
            if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not isinstance(one.targets[0], ast.Name):
                raise Unclear("another statement")
            name = one.targets[0].id
            if name in self.made:
                raise Unclear("a name given twice")
            base = _left_out(self.source, one.value, self.index)
            if base is not None and self.tensor(base) and self.masks(name):
                rows.append(f"{name} = {self.mask(base)}")
            else:
                rows.append(f"{name} = {self.text(one.value)}")
            self.made.add(name)
        self.unread()
        call = last.value if isinstance(last, ast.Expr) else None
        if isinstance(call, ast.Call):
            return self.appended(rows, call)
        if isinstance(last, ast.AugAssign) and isinstance(last.op, ast.Add) and isinstance(last.target, ast.Name):
            return self.summed(rows, last, last.target.id)
        raise Unclear("neither a list nor a sum")

    def appended(self, rows: list[str], call: ast.Call) -> list[Edit]:
        """``parts.append(x)``, of which the sum or the stack is used."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "append" else None
        if not isinstance(owner, ast.Name) or len(call.args) != 1 or call.keywords:
            raise Unclear("a call for its effect")
        name = owner.id
        begun, uses = self.holder(name, ("[]", "list()"))
        rest = [n for n in uses if n is not owner]
        used = node_lookup.parents_of(self.source).get(rest[0]) if len(rest) == 1 else None
        if not isinstance(used, ast.Call) or used.args[:1] != rest:
            raise Unclear("a list that is used otherwise")
        whole = name_bindings.qualified_name(self.source, used.func) or scope_names.dotted_name(used.func)
        alone = len(used.args) == 1 and not used.keywords
        edit: list[Edit] = []
        if whole in ("tensorflow.add_n", "tensorflow.math.add_n", "sum") and alone:
            edit = [edits.replace_node(self.source, used, f"{self.tf}.reduce_sum({name}, axis=0)")]
        elif whole in ("tensorflow.stack", "tensorflow.convert_to_tensor") and alone:
            edit = [edits.replace_node(self.source, used, name)]
        elif whole not in ("tensorflow.reduce_mean", "tensorflow.reduce_sum", "tensorflow.reduce_max"):
            raise Unclear("a list that is used otherwise")
        rows.append(f"return {self.text(call.args[0])}")
        return [edits.remove_statement(self.source, begun), self.mapped(rows, f"{name} = {{}}"), *edit]

    def summed(self, rows: list[str], last: ast.AugAssign, name: str) -> list[Edit]:
        """``total += x`` from 0."""
        begun, uses = self.holder(name, ("0", "0.0"))
        if any(n.lineno <= (self.loop.end_lineno or 0) and n is not last.target for n in uses):
            raise Unclear("a sum that is read on its way")
        rows.append(f"return {self.text(last.value)}")
        total = f"{name} = {self.tf}.reduce_sum({{}}, axis=0)"
        return [edits.remove_statement(self.source, begun), self.mapped(rows, total)]

    def mapped(self, rows: list[str], put: str) -> Edit:
        """The loop as a function of one row, and its call for all."""
        indent = self.source.text.split("\n")[self.loop.lineno - 1][: self.loop.col_offset]
        if indent.strip():
            raise Unclear("a loop behind something else on its line")
        one = extracting.free_name(self.source, "part", "part_of_one")
        call = f"{self.tf}.vectorized_map({one}, {self.tf}.range({edits.node_text(self.source, self.count)}))"
        deeper = indent + edits.indentation_unit(self.source)
        inner = f"\n{deeper}".join(rows)
        text = f"def {one}({self.index}):\n{deeper}{inner}\n\n{indent}{put.format(call)}"
        return edits.replace_node(self.source, self.loop, text)

    def holder(self, name: str, empty: tuple[str, ...]) -> tuple[ast.stmt, list[ast.Name]]:
        """The statement before the loop that begins the list or the sum, and all that reads it."""
        scope = scope_names.enclosing_scope(self.source, self.loop)
        binders = [
            n for n in scope_names.binding_statements(self.source, name, scope) if not isinstance(n, ast.AugAssign)
        ]
        begun = binders[0] if len(binders) == 1 else None
        if not isinstance(begun, ast.Assign) or begun not in self.block or len(begun.targets) != 1:
            raise Unclear("it begins elsewhere")
        if ast.unparse(begun.value) not in empty or self.block.index(begun) > self.block.index(self.loop):
            raise Unclear("it begins with something")
        stored = [n for n in syntax_tree.walk(scope) if isinstance(n, ast.Name) and n.id == name]
        return begun, [n for n in stored if n not in begun.targets]

    def unread(self) -> None:
        """Nothing of a row is used behind the loop, where it would be the last one's."""
        inside = {id(n) for n in syntax_tree.walk(self.loop)}
        for node in syntax_tree.walk(scope_names.enclosing_scope(self.source, self.loop)):
            if isinstance(node, ast.Name) and node.id in (*self.made, self.index) and id(node) not in inside:
                raise Unclear("a row that is used elsewhere")

    # -- expressions

    def text(self, node: ast.expr) -> str:
        """The expression on one row, with all but this one of a vector as a mask."""
        self.known(node)
        text = edits.node_text(self.source, node)
        for call in syntax_tree.walk(node):
            base = _left_out(self.source, call, self.index) if isinstance(call, ast.Call) else None
            if base is not None and isinstance(call, ast.Call):
                text = text.replace(edits.node_text(self.source, call), self.mask(base))
        return text

    def mask(self, base: ast.Name) -> str:
        """``base`` with the least number of all in the place that is left out."""
        tf, name = self.tf, base.id
        here = f"{tf}.range({tf}.shape({name})[0]) == {self.index}"
        return f"{tf}.where({tf}.reshape({here}, [-1] + [1] * ({name}.shape.rank - 1)), {name}.dtype.min, {name})"

    def masks(self, name: str) -> bool:
        """Whether the least number in one place changes nothing of what is made of it."""
        above = node_lookup.parents_of(self.source)
        for node in syntax_tree.walk(self.loop):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                call = above.get(node)
                if not isinstance(call, ast.Call) or call.args != [node] or not self.leaves(call):
                    return False
        return True

    def leaves(self, call: ast.Call) -> bool:
        whole = name_bindings.qualified_name(self.source, call.func)
        alone = len(call.args) == 1 and not call.keywords
        return alone and whole.startswith("tensorflow.") and whole.rpartition(".")[2] in LEAVING

    def known(self, node: ast.AST) -> None:
        if not isinstance(node, NODES):
            raise Unclear(type(node).__name__)
        if isinstance(node, ast.Name) and node.id == self.index:
            raise Unclear("the row's number is used as one")
        if isinstance(node, ast.Call):
            whole = name_bindings.qualified_name(self.source, node.func)
            name = whole.rpartition(".")[2]
            if not whole.startswith(("tensorflow.", "keras.ops.")) or name not in FUNCTIONS or "random" in whole:
                raise Unclear(f"{name} of one row")
            base = _left_out(self.source, node.args[0], self.index) if node.args else None
            if base is not None and self.leaves(node) and self.tensor(base):
                return
            for part in (*node.args, *(k.value for k in node.keywords)):
                self.known(part)
            return
        if isinstance(node, ast.Subscript):
            self.row(node)
            return
        for child in syntax_tree.child_nodes(node):
            self.known(child)

    def row(self, node: ast.Subscript) -> None:
        """``z[i]``, ``z[(i + 3) % n]``, ``z[:, i]`` of a tensor."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        moving = [p for p in parts if self.index in scope_names.read_names(p)]
        for part in moving:
            if isinstance(part, ast.Slice) or not self.place(part):
                raise Unclear("a part that differs in length")
        if moving and not (isinstance(node.value, ast.Name) and self.tensor(node.value)):
            raise Unclear("a row of what is not known to be a tensor")
        self.known(node.value)

    def place(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, COUNTING) and self.place(node.left) and self.place(node.right)
        number = isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 0
        return number or isinstance(node, ast.Name) or scope_names.dotted_name(node) != ""

    def tensor(self, node: ast.Name) -> bool:
        if node.id in self.made:
            return True
        given = name_bindings.single_assignment(self.source, node)
        while isinstance(given, ast.BinOp):
            given = given.left
        whole = name_bindings.qualified_name(self.source, given.func) if isinstance(given, ast.Call) else ""
        return (
            whole.startswith(("tensorflow.", "keras.ops."))
            or value_kinds.kind_of(self.source, node) == value_kinds.TENSOR
        )


def _left_out(source: Source, node: ast.expr, index: str) -> ast.Name | None:
    """``s`` of ``tf.concat([s[:i], s[i + 1:]], 0)``."""
    if not isinstance(node, ast.Call) or name_bindings.qualified_name(source, node.func) != "tensorflow.concat":
        return None
    axis = node_lookup.argument_value(node, "axis", 1)
    parts = node.args[0].elts if node.args and isinstance(node.args[0], (ast.List, ast.Tuple)) else []
    if not (isinstance(axis, ast.Constant) and axis.value == 0) or len(parts) != 2:
        return None
    texts = [ast.unparse(p) for p in parts]
    base = parts[0].value if isinstance(parts[0], ast.Subscript) else None
    if not isinstance(base, ast.Name) or texts != [f"{base.id}[:{index}]", f"{base.id}[{index} + 1:]"]:
        return None
    return base
