"""Translates expressions on one element to expressions on whole arrays, with new axes and ``where`` for branches."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.queries import SCALAR, Rank
from slowtrain.script.navigation import call_arguments, node_lookup, scope_names
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

ELEMENTWISE_FUNCTIONS = frozenset(
    "sqrt exp log log1p log10 log2 expm1 abs absolute fabs sin cos tan tanh sinh cosh arcsin arccos arctan floor ceil "
    "rint sign square maximum minimum power clip where isnan isfinite add subtract multiply divide degrees radians "
    "deg2rad rad2deg logical_and logical_or logical_not hypot arctan2 cbrt trunc negative reciprocal".split()
)
# NumPy names of functions with another name in ``math``.
NUMPY_MATH_NAMES = {
    "pow": "power", "fabs": "abs", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
}  # fmt: skip
NUMPY_MATH_NAMES |= {
    n: n for n in "sqrt exp log log1p log10 log2 expm1 sin cos tan tanh sinh cosh degrees radians hypot".split()
}
REDUCTION_FUNCTIONS = frozenset("sum mean max min std var prod any all amax amin median".split())
CAST_FUNCTIONS = frozenset("float32 float64 float16 int32 int64 uint8 bool_".split())
EXACT_FUNCTIONS = frozenset(
    "sqrt abs absolute fabs maximum minimum where negative logical_and logical_or isnan".split()
)
EXACT_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
OPERATOR_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%", ast.FloorDiv: "//",
}  # fmt: skip
COMPARISON_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class UntranslatableError(Exception):
    """Raised for an expression without a known equivalent over arrays."""


@dataclass(frozen=True)
class ArrayText:
    """The text for an expression of this ``rank``. ``kept``: the text with reduced axes kept as length 1."""

    text: str
    rank: Rank
    varies: bool = True
    kept: str | None = None
    atom: bool = False

    @property
    def safe(self) -> str:
        """Return the text, in parentheses unless it is an atom."""
        return self.text if self.atom else f"({self.text})"


@dataclass(frozen=True)
class LoopAxis:
    """A loop with its index name, if any, and the texts of its start and stop."""

    index: str | None
    start: str
    stop: str


class ArrayTranslator:
    """Translates expressions on one element to arrays with one leading axis per loop."""

    def __init__(self, source: Source, axes: list[LoopAxis], known: Mapping[str, ArrayText], numpy: str) -> None:
        self.source, self.axes, self.known, self.numpy = source, axes, dict(known), numpy
        self.exact = True
        self.depth = 0

    @property
    def axis_count(self) -> int:
        return len(self.axes)

    def translate(self, node: ast.expr) -> ArrayText:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return ArrayText(edits.node_text(self.source, node), SCALAR, False, atom=True)
        if isinstance(node, ast.Name):
            return self.translate_name(node)
        if isinstance(node, ast.Subscript):
            return self.translate_item(node)
        if isinstance(node, ast.BinOp):
            return self.translate_operation(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            one = self.translate(node.operand)
            number = isinstance(node.operand, ast.Constant)
            return replace(one, text=f"-{one.safe}", kept=one.kept and f"(-{one.kept})", atom=number)
        if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            return self.translate_condition(node)
        if isinstance(node, ast.IfExp):
            return self.translate_choice(
                self.translate_condition(node.test), self.translate(node.body), self.translate(node.orelse)
            )
        if isinstance(node, ast.Call):
            return self.translate_call(node)
        if isinstance(node, ast.Attribute) and scope_names.resolved_name(self.source, node) in (
            "math.pi",
            "numpy.pi",
            "math.e",
        ):
            return ArrayText(edits.node_text(self.source, node), SCALAR, False, atom=True)
        raise UntranslatableError(type(node).__name__)

    def translate_name(self, node: ast.Name) -> ArrayText:
        if node.id in self.known:
            return self.known[node.id]
        if node.id in {a.index for a in self.axes}:
            raise UntranslatableError("an index used as a number")
        found = queries.array_rank(self.source, node)
        if found is None or found[0]:
            if queries.kind_at(self.source, node) not in (queries.NUMBER, queries.CONSTANT):
                raise UntranslatableError(f"{node.id}: of unknown rank")
            found = SCALAR
        return ArrayText(node.id, found, False, atom=True)

    def translate_item(self, node: ast.Subscript) -> ArrayText:
        """Translate ``a[i, j]`` to the array, sliced to the range of the loops."""
        indices: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            given = list(base.slice.elts) if isinstance(base.slice, ast.Tuple) else [base.slice]
            indices, base = [*given, *indices], base.value
        if not isinstance(base, ast.Name) or base.id in self.known or not queries.is_array(self.source, base):
            raise UntranslatableError("items of what is not known to be an array")
        found = queries.array_rank(self.source, base)
        if found is None:
            raise UntranslatableError(f"{base.id}: of unknown rank")
        if any(isinstance(i, ast.Slice) for i in indices):
            return self.translate_window(base, indices, found)
        fixed = [edits.node_text(self.source, i) for i in indices if isinstance(i, ast.Constant)]
        looped = indices[: len(indices) - len(fixed)]
        if not looped or any(isinstance(i, ast.Constant) for i in looped):
            raise UntranslatableError("a fixed index before a loop's")
        used = [self.loop_position(i) for i in looped]
        if any(b <= a for (a, _), (b, _) in pairwise(used)):
            raise UntranslatableError("indices in another order than the loops")
        by_axis, last = dict(used), max(number for number, _ in used)
        parts = [self.slice_text(base, a, by_axis[a]) if a in by_axis else "None" for a in range(self.axis_count)]
        left = (found[0], found[1] - len(indices))
        if last < self.axis_count - 1 and (left != SCALAR or fixed):
            raise UntranslatableError("items of several ranks")
        parts += fixed
        return ArrayText(base.id if set(parts) == {":"} else f"{base.id}[{', '.join(parts)}]", left, atom=True)

    def loop_position(self, node: ast.expr) -> tuple[int, int]:
        """Return the number of the loop whose index it is, and the offset."""
        offset = 0
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, int)):
                raise UntranslatableError("an index that is calculated")
            offset = node.right.value if isinstance(node.op, ast.Add) else -node.right.value
            node = node.left
        for number, axis in enumerate(self.axes):
            if isinstance(node, ast.Name) and node.id == axis.index:
                return number, offset
        raise UntranslatableError("an index of no loop")

    def slice_text(self, base: ast.Name, number: int, offset: int) -> str:
        axis = self.axes[number]
        if axis.start == "0" and not offset and axis.stop in self.known_lengths(base, number):
            return ":"
        if offset and not axis.start.isdigit():
            raise UntranslatableError("an offset from an unknown start")
        start = str(int(axis.start) + offset) if offset else axis.start
        if start.startswith("-"):
            raise UntranslatableError("an index below nought")
        stop = f"{axis.stop} + {offset}" if offset > 0 else f"{axis.stop} - {-offset}" if offset else axis.stop
        if offset and axis.stop.isdigit():
            stop = str(int(axis.stop) + offset)
        return f"{'' if start == '0' else start}:{stop}"

    def known_lengths(self, base: ast.Name, number: int) -> set[str]:
        """Return texts for the length of the array, including the array whose shape it copies."""
        scope = call_arguments.binding_function(self.source, base)
        made = scope_names.binding_statements(self.source, base.id, scope) if scope is not None else []
        call = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
        found = {f"{base.id}.shape[{number}]", *([f"len({base.id})"] if not number else [])}
        shape = queries.shape_at(self.source, base) or ()
        found |= {str(size) for size in shape[number : number + 1] if size is not None}
        if not isinstance(call, ast.Call) or not call.args:
            return found
        after, name = call.args[0], node_lookup.called_name(call)
        if name in ("zeros", "ones", "empty"):
            sizes = after.elts if isinstance(after, ast.Tuple) else [after]
            if number < len(sizes) and not isinstance(sizes[number], ast.Attribute):
                found.add(edits.node_text(self.source, sizes[number]))
            after = after.value if isinstance(after, ast.Attribute) and after.attr == "shape" else call
        elif not name.endswith("_like"):
            return found
        if isinstance(after, ast.Name):
            found |= {f"{after.id}.shape[{number}]"} | ({f"len({after.id})"} if not number else set())
        return found

    def translate_window(self, base: ast.Name, indices: list[ast.expr], found: Rank) -> ArrayText:
        """Translate ``a[i:i + 3, j:j + 3]`` to views of all windows."""
        sizes = [self.window_size(i, number) for number, i in enumerate(indices)]
        if len(sizes) != self.axis_count or found != ("", len(sizes)):
            raise UntranslatableError("a window of another form")
        if any(a.start != "0" for a in self.axes):
            raise UntranslatableError("windows that start elsewhere")
        cuts = ", ".join(f":{a.stop}" for a in self.axes)
        shape = ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "")
        view = f"{self.numpy}.lib.stride_tricks.sliding_window_view({base.id}, ({shape}))[{cuts}]"
        return ArrayText(view, ("", len(sizes)), atom=True)

    def window_size(self, node: ast.expr, number: int) -> int:
        if isinstance(node, ast.Slice) and isinstance(node.lower, ast.Name) and isinstance(node.upper, ast.BinOp):
            upper = node.upper
            ours = number < self.axis_count and node.lower.id == self.axes[number].index and node.step is None
            same = ours and isinstance(upper.left, ast.Name) and upper.left.id == node.lower.id
            if same and isinstance(upper.op, ast.Add) and isinstance(upper.right, ast.Constant):
                return int(upper.right.value)  # type: ignore[arg-type]
        raise UntranslatableError("a slice of another form")

    # -- operators

    def translate_operation(self, node: ast.BinOp) -> ArrayText:
        left, right = self.translate(node.left), self.translate(node.right)
        sign = OPERATOR_SIGNS.get(type(node.op))
        if sign is None:
            raise UntranslatableError("an operator of bits")
        if any(isinstance(s, ast.Constant) for s in (node.left, node.right)):
            self.exact = False  # older NumPy uses wider types for one element and a constant than for an array
        self.exact &= isinstance(node.op, EXACT_OPERATORS)
        return self.combine_values([left, right], lambda *t: f"{t[0]} {sign} {t[1]}")

    def combine_values(self, values: list[ArrayText], write: Callable[..., str], atom: bool = False) -> ArrayText:
        """Return one text of several values, with their ranks aligned."""
        varying = [v.rank for v in values if v.varies]
        high = max(varying, key=lambda r: (r[0] != "", r[1]), default=SCALAR)
        texts = []
        for one in values:
            if not one.varies and (one.rank[0] or (one.rank[1] and (high[0] or one.rank[1] > high[1]))):
                raise UntranslatableError("an array beside elements of unknown rank")
            if not one.varies or one.rank == high:
                texts.append(one.text if atom else one.safe)
            elif one.kept is not None:
                texts.append(one.kept)
            else:
                raise UntranslatableError("elements of several ranks")
        every = all(v.kept is not None or not v.varies for v in values) and any(v.kept for v in values)
        kept = write(*[v.kept or v.safe for v in values]) if every else None
        kept = f"({kept})" if kept and not atom else kept
        constant = max((v.rank for v in values), key=lambda r: r[1]) if not varying else high
        return ArrayText(write(*texts), constant, bool(varying), kept, atom)

    def translate_condition(self, node: ast.expr) -> ArrayText:
        if isinstance(node, ast.BoolOp):
            sign = "&" if isinstance(node.op, ast.And) else "|"
            return self.combine_values(
                [self.translate_condition(v) for v in node.values], lambda *t: f" {sign} ".join(t)
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            one = self.translate_condition(node.operand)
            return replace(one, text=f"~({one.text})", kept=None, atom=False)
        if not isinstance(node, ast.Compare):
            raise UntranslatableError("a condition that is no comparison")
        sides = [self.translate(s) for s in (node.left, *node.comparators)]
        parts = []
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            sign = COMPARISON_SIGNS.get(type(operator), "")
            if not sign:
                raise UntranslatableError("in, is")
            parts.append(self.combine_values([left, right], lambda *t, sign=sign: f"{t[0]} {sign} {t[1]}"))
        return parts[0] if len(parts) == 1 else self.combine_values(parts, lambda *t: " & ".join(t))

    def translate_choice(self, test: ArrayText, yes: ArrayText, no: ArrayText) -> ArrayText:
        if not test.varies:
            raise UntranslatableError("a branch that is the same for all elements")
        return self.combine_values([test, yes, no], lambda *t: f"{self.numpy}.where({', '.join(t)})", atom=True)

    # -- calls

    def translate_call(self, call: ast.Call) -> ArrayText:
        name, whole = node_lookup.called_name(call), scope_names.resolved_name(self.source, call.func)
        if isinstance(call.func, ast.Attribute) and not whole.startswith(("numpy.", "math.")):
            return self.translate_method(call, call.func.value, name)
        if whole.startswith("numpy."):
            return self.translate_numpy_call(call, name)
        if whole.startswith("math."):
            self.exact &= name == "sqrt"
            wide = [self.as_wide_numbers(self.translate(a)) for a in call.args]
            if name not in NUMPY_MATH_NAMES or call.keywords or not wide:
                raise UntranslatableError(whole)
            return self.combine_values(
                wide, lambda *t: f"{self.numpy}.{NUMPY_MATH_NAMES[name]}({', '.join(t)})", atom=True
            )
        return self.translate_plain_call(call, name)

    def translate_plain_call(self, call: ast.Call, name: str) -> ArrayText:
        """Translate a call of a builtin or of a function of the file."""
        if name in ("abs", "float", "int") and len(call.args) == 1:
            one = self.translate(call.args[0])
            if name == "abs":
                return replace(one, text=f"{self.numpy}.abs({one.text})", kept=None, atom=True)
            return replace(one, text=f"{self.numpy}.asarray({one.text}).astype({name})", kept=None, atom=True)
        if name in ("min", "max") and len(call.args) == 2 and not call.keywords:
            both = [self.translate(a) for a in call.args]
            return self.combine_values(both, lambda *t: f"{self.numpy}.{name}imum({', '.join(t)})", atom=True)
        if name == "sum" and len(call.args) == 1:
            return self.translate_reduction(self.translate(call.args[0]), "sum")
        return self.inline_function(call)

    def as_wide_numbers(self, one: ArrayText) -> ArrayText:
        """Convert to 8-byte numbers, as Python uses."""
        if not one.varies:
            return one
        return replace(one, text=f"{self.numpy}.asarray({one.text}, float)", kept=None, atom=True)

    def translate_method(self, call: ast.Call, owner: ast.expr, name: str) -> ArrayText:
        one = self.translate(owner)
        if name in REDUCTION_FUNCTIONS and not call.args and not call.keywords and name != "median":
            return self.translate_reduction(one, name)
        if name == "astype" and len(call.args) == 1 and not call.keywords:
            given = edits.node_text(self.source, call.args[0])
            return replace(one, text=f"{one.safe}.astype({given})", kept=None, atom=True)
        if name in ("flatten", "ravel") and not call.args and self.axis_count == 1:
            return ArrayText(f"{one.safe}.reshape(len({one.text}), -1)", ("", 1), atom=True)
        if name == "copy" and not call.args:
            return one
        raise UntranslatableError(name)

    def translate_numpy_call(self, call: ast.Call, name: str) -> ArrayText:
        if name in REDUCTION_FUNCTIONS and len(call.args) == 1 and not call.keywords:
            return self.translate_reduction(self.translate(call.args[0]), name)
        if call.keywords or not call.args:
            raise UntranslatableError(name)
        written = edits.node_text(self.source, call.func)
        if name in ELEMENTWISE_FUNCTIONS:
            self.exact &= name in EXACT_FUNCTIONS
            values = [self.translate(a) for a in call.args]
            return self.combine_values(values, lambda *t: f"{written}({', '.join(t)})", atom=True)
        if name in CAST_FUNCTIONS and len(call.args) == 1:
            one = self.translate(call.args[0])
            return replace(one, text=f"{one.safe}.astype({written})", kept=None, atom=True)
        raise UntranslatableError(name)

    def translate_reduction(self, one: ArrayText, name: str) -> ArrayText:
        if not one.varies:
            raise UntranslatableError("a reduction of what is the same for all elements")
        self.exact = False
        token, off = one.rank
        if not token and off <= 0:
            raise UntranslatableError("a reduction of single numbers")
        if not token:
            axes = str(self.axis_count) if off == 1 else str(tuple(range(self.axis_count, self.axis_count + off)))
        elif off == -self.axis_count:
            axes = f"tuple(range({self.axis_count}, {token}.ndim))"
        else:
            raise UntranslatableError("a reduction over unknown axes")
        text = f"{self.numpy}.{name}({one.text}, axis={axes}"
        return ArrayText(f"{text})", SCALAR, True, f"{text}, keepdims=True)", True)

    def inline_function(self, call: ast.Call) -> ArrayText:
        """Inline a function of the file that consists of one expression or a choice of expressions."""
        target = (
            node_lookup.function_named(self.source, node_lookup.called_name(call), call)
            if isinstance(call.func, ast.Name)
            else None
        )
        if target is None or self.depth > 3 or target.decorator_list or call.keywords:
            raise UntranslatableError(node_lookup.called_name(call))
        names, missing = scope_names.parameter_names(target), len(scope_names.parameter_names(target)) - len(call.args)
        defaults = target.args.defaults[len(target.args.defaults) - missing :] if missing > 0 else []
        if missing != len(defaults) or any(isinstance(a, ast.Starred) for a in call.args):
            raise UntranslatableError("arguments of another form")
        values = [self.translate(a) for a in (*call.args, *defaults)]
        saved, self.known = self.known, dict(zip(names, values, strict=True))
        self.depth += 1
        try:
            return self.returned_expression(target.body)
        finally:
            self.known, self.depth = saved, self.depth - 1

    def returned_expression(self, body: list[ast.stmt]) -> ArrayText:
        for number, one in enumerate(body):
            if isinstance(one, ast.Return) and one.value is not None:
                return self.translate(one.value)
            if isinstance(one, ast.If):
                test, rest, saved = self.translate_condition(one.test), body[number + 1 :], dict(self.known)
                yes = self.returned_expression([*one.body, *rest])
                self.known = saved
                return self.translate_choice(test, yes, self.returned_expression([*one.orelse, *rest]))
            if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
                value = self.translate(one.value)
                self.known[one.targets[0].id] = replace(value, text=value.safe, atom=True)
            elif not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)):
                raise UntranslatableError(type(one).__name__)
        raise UntranslatableError("no return")
