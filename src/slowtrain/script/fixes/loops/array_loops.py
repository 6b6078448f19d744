"""Rewrites loops over elements as operations on whole NumPy arrays, for known forms of loops.

A loop is ``for i in range(n)`` over the indices of an array, ``for row in array``, or one of them in another. Its
elements are assigned, changed in place, or appended to an empty list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

from slowtrain.model import Edit
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.queries import SCALAR, Rank
from slowtrain.script.navigation import call_arguments, call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

ELEMENTWISE_FUNCTIONS = frozenset(
    "sqrt exp log log1p log10 log2 expm1 abs absolute fabs sin cos tan tanh sinh cosh arcsin arccos arctan floor ceil "
    "rint sign square maximum minimum power clip where isnan isfinite add subtract multiply divide degrees radians "
    "deg2rad rad2deg logical_and logical_or logical_not hypot arctan2 cbrt trunc negative reciprocal".split()
)
REDUCTION_FUNCTIONS = frozenset("sum mean max min std var prod any all amax amin median".split())
EXACT_FUNCTIONS = frozenset(
    "sqrt abs absolute fabs maximum minimum where negative logical_and logical_or isnan".split()
)
EXACT_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
OPERATOR_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%", ast.FloorDiv: "//",
}  # fmt: skip


class UntranslatableError(Exception):
    """Raised for code without a known equivalent over arrays."""


class VectorisedCode(Struct, frozen=True):
    """The edits, and whether results stay bit-identical."""

    edits: tuple[Edit, ...]
    exact: bool


class ArrayText(Struct, frozen=True):
    """The text for an expression of this ``rank``. Without ``varies`` it is the same for all elements."""

    text: str
    rank: Rank
    varies: bool = True
    atom: bool = False

    @property
    def safe(self) -> str:
        """Return the text, in parentheses unless it is an atom."""
        return self.text if self.atom else f"({self.text})"


class LoopAxis(Struct, frozen=True):
    """A loop with its index name, if any, and the text of its stop. It starts at 0."""

    index: str | None
    stop: str


def vectorise_loop(source: Source, line: int) -> VectorisedCode | None:
    """Rewrite the outermost loop around ``line`` over whole arrays; None for an unknown form."""
    for node in _candidate_loops(source, line):
        try:
            return _LoopTranslator(source, node).translate()
        except UntranslatableError:
            continue
    return None


def _candidate_loops(source: Source, line: int) -> list[ast.For]:
    """Return loops that contain the line, or a call of its function; the outermost first."""
    function = source.function_at(line)
    calls = call_arguments.function_calls(source, function) if function is not None else []
    lines = dict.fromkeys([line, *(c.lineno for c in calls)])
    loops = call_index.nodes_of_class(source, ast.For)
    return [n for each in lines for n in loops if n.lineno <= each <= (n.end_lineno or 0)]


class _LoopTranslator:
    """Translates a ``for`` statement over elements, with one leading axis per loop."""

    def __init__(self, source: Source, node: ast.For) -> None:
        self.source, self.node = source, node
        self.scope = scope_names.enclosing_scope(source, node)
        self.inside = {id(n) for n in syntax_tree.walk(node)}
        self.axes: list[LoopAxis] = []
        self.known: dict[str, ArrayText] = {}
        self.lines: list[str] = []
        self.appended: dict[str, str] = {}
        self.exact = True
        self.numpy = scope_names.module_alias(source, "numpy")

    def translate(self) -> VectorisedCode:
        self.translate_loop(self.node)
        self.check_names_unread()
        lists = [self.remove_empty_list(name) for name in self.appended]
        text = "\n".join([*self.lines, *(f"{name} = {value}" for name, value in self.appended.items())])
        indent = self.source.text.split("\n")[self.node.lineno - 1][: self.node.col_offset]
        if not text or indent.strip() or not self.numpy:
            raise UntranslatableError("nothing to write, or no place for it")
        edit = edits.replace_node(self.source, self.node, text.replace("\n", f"\n{indent}"))
        return VectorisedCode((*lists, edit), self.exact)

    # -- statements

    def translate_loop(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise UntranslatableError("a loop of another form")
        if isinstance(node.iter, ast.Call) and node_lookup.called_name(node.iter) == "range":
            self.axes.append(self.counted_axis(node.target.id, node.iter))
        elif self.axes or not isinstance(node.iter, ast.Name) or not queries.is_array(self.source, node.iter):
            raise UntranslatableError("items of something else than an array")
        else:
            token, rank = self.known_rank(node.iter)
            self.axes.append(LoopAxis(None, f"len({node.iter.id})"))
            self.known[node.target.id] = ArrayText(node.iter.id, (token, rank - 1), atom=True)
        for one in node.body:
            self.translate_statement(one, alone=len(node.body) == 1)

    def counted_axis(self, index: str, call: ast.Call) -> LoopAxis:
        """Return the axis of ``range(n)``, where ``n`` is a length or a number that the loop does not change."""
        inner = list(syntax_tree.walk(call.args[0])) if len(call.args) == 1 else []
        changed = {n.id for n in inner if isinstance(n, ast.Name)} & scope_names.bound_names(self.node)
        other = any(isinstance(n, ast.Call) and node_lookup.called_name(n) not in ("len", "int") for n in inner)
        plain = all(isinstance(n, (ast.expr, ast.Load, ast.operator)) for n in inner)
        if not inner or call.keywords or changed or other or not plain:
            raise UntranslatableError("a range of another form")
        return LoopAxis(index, edits.node_text(self.source, call.args[0]))

    def translate_statement(self, one: ast.stmt, *, alone: bool) -> None:
        match one:
            case ast.For() if alone:
                self.translate_loop(one)
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                self.store_value(self.target_place(target), "=", self.translate_expression(value))
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                self.exact = False
                self.store_value(
                    self.target_place(target), f"{self.operator_sign(op)}=", self.translate_expression(value)
                )
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item])):
                found = self.translate_expression(item)
                if len(self.axes) != 1 or name in self.appended or not found.varies:
                    raise UntranslatableError("a list of another form")
                self.appended[name] = found.text
            case _:
                raise UntranslatableError(type(one).__name__)

    def store_value(self, place: ArrayText, sign: str, found: ArrayText) -> None:
        if found.rank != (place.rank if found.varies else SCALAR):
            raise UntranslatableError("a target of another rank")
        self.lines.append(f"{place.text if '[' in place.text else f'{place.text}[...]'} {sign} {found.text}")

    def target_place(self, target: ast.Subscript) -> ArrayText:
        place = self.translate_item(target)
        name = scope_names.dotted_name(_root_expression(target))
        if "None" in place.text or "sliding" in place.text:
            raise UntranslatableError("the same place in several turns")
        wanted = ast.unparse(target)
        above = node_lookup.parents_of(self.source)
        for node in syntax_tree.walk(self.node):  # an iteration must not read an element that another one writes
            if isinstance(node, ast.Subscript) and scope_names.dotted_name(_root_expression(node)) == name:
                if ast.unparse(node) != wanted and not isinstance(above.get(node), ast.Subscript):
                    raise UntranslatableError("turns that need each other")
            elif isinstance(node, ast.Name) and node.id == name and not _is_only_measured(above.get(node)):
                raise UntranslatableError("the whole array is read while it is written")
        return place

    # -- expressions

    def translate_expression(self, node: ast.expr) -> ArrayText:
        match node:
            case ast.Constant(value=int() | float()):
                return ArrayText(edits.node_text(self.source, node), SCALAR, varies=False, atom=True)
            case ast.Name(id=name) if name in self.known:
                return self.known[name]
            case ast.Name(id=name) if name not in {a.index for a in self.axes}:
                token, rank = self.known_rank(node)
                if token:
                    raise UntranslatableError(f"{name}: of unknown rank")
                return ArrayText(name, (token, rank), varies=False, atom=True)
            case ast.Subscript():
                return self.translate_item(node)
            case ast.BinOp(left=left, op=op, right=right):
                sign = self.operator_sign(op)
                # Older NumPy uses wider types for one element and a constant than for an array.
                self.exact &= isinstance(op, EXACT_OPERATORS) and not isinstance(left, ast.Constant)
                self.exact &= not isinstance(right, ast.Constant)
                both = [self.translate_expression(left), self.translate_expression(right)]
                return self.combine_values(both, lambda *t: f"{t[0]} {sign} {t[1]}")
            case ast.Call():
                return self.translate_call(node)
        raise UntranslatableError(type(node).__name__)

    def operator_sign(self, operator: ast.operator) -> str:
        if type(operator) not in OPERATOR_SIGNS:
            raise UntranslatableError("an operator of bits")
        return OPERATOR_SIGNS[type(operator)]

    def known_rank(self, node: ast.Name) -> Rank:
        found = queries.array_rank(self.source, node)
        if found is None:
            raise UntranslatableError(f"{node.id}: of unknown rank")
        return found

    def translate_item(self, node: ast.Subscript) -> ArrayText:
        """Translate ``a[i, j]`` to the array, cut to the range of the loops."""
        indices: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            outer = list(base.slice.elts) if isinstance(base.slice, ast.Tuple) else [base.slice]
            indices, base = [*outer, *indices], base.value
        if not isinstance(base, ast.Name) or base.id in self.known or not queries.is_array(self.source, base):
            raise UntranslatableError("items of what is not known to be an array")
        token, rank = self.known_rank(base)
        if any(isinstance(i, ast.Slice) for i in indices):
            return self.translate_window(base, indices, (token, rank))
        used = [self.loop_number(i) for i in indices]
        if any(b <= a for a, b in pairwise(used)):
            raise UntranslatableError("indices in another order than the loops")
        if used[-1] < len(self.axes) - 1 and (token, rank) != ("", len(indices)):
            raise UntranslatableError("items of several ranks")
        parts = [self.slice_text(base, at) if at in used else "None" for at in range(len(self.axes))]
        text = base.id if set(parts) == {":"} else f"{base.id}[{', '.join(parts)}]"
        return ArrayText(text, (token, rank - len(indices)), atom=True)

    def loop_number(self, node: ast.expr) -> int:
        for number, axis in enumerate(self.axes):
            if isinstance(node, ast.Name) and node.id == axis.index:
                return number
        raise UntranslatableError("an index of no loop")

    def slice_text(self, base: ast.Name, number: int) -> str:
        stop = self.axes[number].stop
        return ":" if stop in self.known_lengths(base, number) else f":{stop}"

    def known_lengths(self, base: ast.Name, number: int) -> set[str]:
        """Return texts for the length of an axis of the array, or of the array whose shape it copies."""
        scope = call_arguments.binding_function(self.source, base)
        bindings = scope_names.binding_statements(self.source, base.id, scope) if scope is not None else []
        call = bindings[0].value if len(bindings) == 1 and isinstance(bindings[0], ast.Assign) else None
        like = call.args[0] if isinstance(call, ast.Call) and call.args else None
        names = [base.id]
        if isinstance(call, ast.Call) and isinstance(like, ast.Name):
            names += [like.id] * node_lookup.called_name(call).endswith("_like")
        found = {f"{name}.shape[{number}]" for name in names} | {f"len({name})" for name in names if not number}
        sizes = like.elts if isinstance(like, ast.Tuple) else [like]
        if isinstance(call, ast.Call) and node_lookup.called_name(call) in ("zeros", "ones", "empty"):
            found |= {edits.node_text(self.source, one) for one in sizes[number : number + 1] if one is not None}
        shape = queries.shape_at(self.source, base) or ()
        return found | {str(size) for size in shape[number : number + 1] if size is not None}

    def translate_window(self, base: ast.Name, indices: list[ast.expr], rank: Rank) -> ArrayText:
        """Translate ``a[i:i + 3, j:j + 3]`` to views of all windows."""
        sizes = [self.window_size(i, axis) for i, axis in zip(indices, self.axes, strict=False)]
        if not len(indices) == len(self.axes) == rank[1] or rank[0]:
            raise UntranslatableError("a window of another form")
        cuts = ", ".join(f":{a.stop}" for a in self.axes)
        shape = ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "")
        view = f"{self.numpy}.lib.stride_tricks.sliding_window_view({base.id}, ({shape}))[{cuts}]"
        return ArrayText(view, rank, atom=True)

    def window_size(self, node: ast.expr, axis: LoopAxis) -> int:
        match node:
            case ast.Slice(
                lower=ast.Name(id=low),
                upper=ast.BinOp(left=ast.Name(id=high), op=ast.Add(), right=ast.Constant(value=int(size))),
                step=None,
            ) if low == high == axis.index:
                return size
        raise UntranslatableError("a slice of another form")

    def combine_values(self, values: list[ArrayText], write: Callable[..., str], *, atom: bool = False) -> ArrayText:
        """Return one text of several values of one rank, or of one rank and numbers."""
        ranks = {v.rank for v in values if v.varies}
        high = ranks.pop() if len(ranks) == 1 else SCALAR
        for one in values:
            if ranks or (not one.varies and (one.rank[0] or (one.rank[1] and (high[0] or one.rank[1] > high[1])))):
                raise UntranslatableError("elements of several ranks")
        return ArrayText(
            write(*[v.text if atom else v.safe for v in values]), high, any(v.varies for v in values), atom
        )

    def translate_call(self, call: ast.Call) -> ArrayText:
        name = node_lookup.called_name(call)
        whole = scope_names.resolved_name(self.source, call.func)
        if not whole.startswith("numpy.") or call.keywords or not call.args:
            raise UntranslatableError(whole)
        values = [self.translate_expression(a) for a in call.args]
        if name in REDUCTION_FUNCTIONS and len(values) == 1:
            return self.reduce_axes(values[0], name)
        if name not in ELEMENTWISE_FUNCTIONS:
            raise UntranslatableError(name)
        self.exact &= name in EXACT_FUNCTIONS
        written = edits.node_text(self.source, call.func)
        return self.combine_values(values, lambda *t: f"{written}({', '.join(t)})", atom=True)

    def reduce_axes(self, one: ArrayText, name: str) -> ArrayText:
        token, rank = one.rank
        if not one.varies or token or rank <= 0:
            raise UntranslatableError("a reduction over unknown axes")
        self.exact = False
        first = len(self.axes)
        axes = str(first) if rank == 1 else str(tuple(range(first, first + rank)))
        return ArrayText(f"{self.numpy}.{name}({one.text}, axis={axes})", SCALAR, atom=True)

    # -- around the loop

    def check_names_unread(self) -> None:
        """Raise if other code reads a name that the loop binds."""
        bound = scope_names.bound_names(self.node)
        if any(node.id in bound for node in self.names_outside()):
            raise UntranslatableError("a name of the loop is used elsewhere")

    def names_outside(self) -> list[ast.Name]:
        body = scope_names.scope_body(self.scope)
        names = [n for one in body for n in syntax_tree.walk(one) if isinstance(n, ast.Name)]
        return [n for n in names if id(n) not in self.inside]

    def remove_empty_list(self, name: str) -> Edit:
        """Remove ``out = []`` if the list is only converted to an array afterwards."""
        uses = [n for n in self.names_outside() if n.id == name]
        bindings = [node_lookup.enclosing_statement(self.source, n) for n in uses if isinstance(n.ctx, ast.Store)]
        block = scope_names.statement_block(self.source, self.node)
        statement = bindings[0] if len(bindings) == 1 else None
        if statement is None or ast.unparse(statement) not in (f"{name} = []", f"{name} = list()"):
            raise UntranslatableError("a list that was not empty")
        if statement not in block or block.index(statement) > block.index(self.node):
            raise UntranslatableError("a list made elsewhere")
        above = node_lookup.parents_of(self.source)
        if not all(isinstance(n.ctx, ast.Store) or self.takes_array(above.get(n)) for n in uses):
            raise UntranslatableError("the list itself is used")
        return edits.remove_statement(self.source, statement)

    def takes_array(self, node: ast.AST | None) -> bool:
        """Whether ``node`` is ``np.array(values)`` or ``len(values)``."""
        arrays = ("numpy.array", "numpy.asarray", "numpy.stack", "len")
        return isinstance(node, ast.Call) and scope_names.resolved_name(self.source, node.func) in arrays


def _root_expression(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _is_only_measured(parent: ast.AST | None) -> bool:
    """Whether it is ``len(a)``, ``a.shape`` or ``a[…]``."""
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("shape", "ndim")
    measured = isinstance(parent, ast.Call) and node_lookup.called_name(parent) == "len"
    return measured or isinstance(parent, ast.Subscript)
