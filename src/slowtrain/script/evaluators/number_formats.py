"""Number formats of NumPy arrays, as far as the text shows them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.script.navigation import name_bindings, setting_origins
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

DOUBLE, SINGLE, WHOLE, TENSOR = "double", "single", "whole", "tensor"
PLAIN, REAL = "plain", "real"  # Python ints and texts; Python floats, which take an array's format
MAX_DEPTH = 12

_FLOAT_DRAWS = frozenset(
    "rand randn random uniform normal standard_normal random_sample exponential beta gamma lognormal laplace logistic "
    "triangular chisquare standard_cauchy weibull dirichlet multivariate_normal".split()
)
_WHOLE_DRAWS = frozenset({"randint", "integers", "permutation", "poisson", "binomial", "random_integers"})
_FLOAT_MAKERS = frozenset({"zeros", "ones", "empty", "linspace", "eye", "identity", "logspace", "geomspace", "loadtxt"})
_FLOAT_FUNCTIONS = frozenset(
    "exp log log2 log10 log1p expm1 sqrt sin cos tan tanh sinh cosh arctan arctan2 arcsin arccos mean std var average "
    "median percentile quantile true_divide divide hypot sinc".split()
)
_SAME_FORMAT_FUNCTIONS = frozenset(
    "abs absolute square maximum minimum clip stack concatenate vstack hstack dstack column_stack expand_dims "
    "transpose sum dot matmul outer cumsum roll sign power add multiply subtract negative tile repeat reshape ravel "
    "squeeze flip fliplr flipud pad sort inner append ascontiguousarray copy swapaxes moveaxis zeros_like ones_like "
    "empty_like amax amin max min prod diff round float_power cross kron broadcast_to atleast_2d take split".split()
)
_TWO_ARGUMENT_FUNCTIONS = frozenset(
    "dot matmul add multiply subtract divide true_divide maximum minimum outer hypot arctan2".split()
)
_SAME_FORMAT_METHODS = frozenset(
    "reshape copy transpose ravel flatten squeeze clip repeat take sum max min cumsum dot swapaxes round prod".split()
)
_INDEX_FUNCTIONS = frozenset("argmax argmin argsort bincount searchsorted digitize nonzero".split())
_RANDOM_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")


class NumberFormats:
    """The formats in one file. ``cast``: assigned values that an edit will make float32."""

    def __init__(self, source: Source, cast: Iterable[ast.expr] = ()) -> None:
        self.source = source
        self.cast = set(cast)
        self._open: set[ast.AST] = set()

    def of(self, node: ast.expr, depth: int = MAX_DEPTH) -> str | None:
        """The format of an expression; None if unknown."""
        if node in self.cast:
            return SINGLE
        if depth <= 0:
            return None
        if isinstance(node, ast.Constant):
            return REAL if isinstance(node.value, float) else PLAIN
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand, depth - 1)
        if isinstance(node, (ast.Subscript, ast.Starred)):
            return self.of(node.value, depth - 1)
        if isinstance(node, ast.Compare):
            return WHOLE
        if isinstance(node, (ast.List, ast.Tuple)):
            return _joined_format([self.of(e, depth - 1) for e in node.elts]) if node.elts else PLAIN
        if isinstance(node, ast.BinOp):
            both = [self.of(node.left, depth - 1), self.of(node.right, depth - 1)]
            return _joined_format(both, isinstance(node.op, ast.Div))
        if isinstance(node, ast.Attribute):
            if name_bindings.qualified_name(self.source, node) in (
                "numpy.pi",
                "numpy.e",
                "numpy.inf",
                "numpy.nan",
                "math.pi",
            ):
                return REAL
            return self.of(node.value, depth - 1) if node.attr == "T" else None
        if isinstance(node, ast.Name):
            return self._of_name(node, depth)
        return self._of_call(node, depth) if isinstance(node, ast.Call) else None

    def assignments(self, node: ast.Name) -> list[ast.expr] | None:
        """All values assigned to a name in its scope; None if it is also bound in another way than by ``+=``."""
        where = name_bindings.binding_scope(self.source, node, node.id)
        found = []
        above = find.parents_of(self.source)
        for store in name_bindings.bindings_of(where, node.id):
            if isinstance(above.get(store), ast.AugAssign):
                continue
            value = name_bindings.assigned_value(self.source, store) if isinstance(store, ast.Name) else None
            if value is None:
                return None
            found.append(value)
        return found or None

    def _of_name(self, node: ast.Name, depth: int) -> str | None:
        given = self.assignments(node)
        if given is None:
            return self._of_unpacked(node, depth)
        kinds = []
        for value in given:
            if value in self._open:
                continue  # x = x / 255: its other assignments decide
            self._open.add(value)
            kinds.append(self.of(value, depth - 1))
            self._open.discard(value)
        if kinds and len(set(kinds)) == 1:
            return kinds[0] if kinds[0] in (DOUBLE, SINGLE) else self._format_after_updates(node, kinds[0], depth)
        return DOUBLE if DOUBLE in kinds and None not in kinds else None

    def _format_after_updates(self, node: ast.Name, kind: str | None, depth: int) -> str | None:
        """The format of a name after ``+=`` and the like; an array of floats keeps its format."""
        above, kinds = find.parents_of(self.source), [kind]
        for store in name_bindings.bindings_of(name_bindings.binding_scope(self.source, node, node.id), node.id):
            holder = above.get(store)
            if isinstance(holder, ast.AugAssign) and holder.value not in self._open:
                self._open.add(holder.value)
                kinds.append(self.of(holder.value, depth - 1))
                self._open.discard(holder.value)
        return _joined_format(kinds) if len(kinds) > 1 and kind is not None else kind

    def _of_unpacked(self, node: ast.Name, depth: int) -> str | None:
        """The format of ``x, y = make()`` for a function of this file, or of ``a, b = rng.normal(size=(2, n))``."""
        where = name_bindings.binding_scope(self.source, node, node.id)
        bound = list(name_bindings.bindings_of(where, node.id))
        above = find.parents_of(self.source)
        holder = above.get(bound[0]) if len(bound) == 1 else None
        assign = above.get(holder) if isinstance(holder, ast.Tuple) else None
        if not isinstance(holder, ast.Tuple) or not isinstance(assign, ast.Assign):
            return None
        call = assign.value
        if not isinstance(call, ast.Call):
            return None
        function = find.function_named(self.source, find.called_name(call), node)
        if function is None:
            return self.of(call, depth - 1) if isinstance(call.func, ast.Attribute) else None
        returned = [n.value for n in syntax_tree.walk(function) if isinstance(n, ast.Return)]
        at = next((i for i, e in enumerate(holder.elts) if e is bound[0]), -1)
        if len(returned) == 1 and isinstance(returned[0], ast.Tuple) and 0 <= at < len(returned[0].elts):
            return self.of(returned[0].elts[at], depth - 1)
        return None

    def _of_call(self, call: ast.Call, depth: int) -> str | None:
        name = name_bindings.qualified_name(self.source, call.func)
        last = find.called_name(call)
        dtype = find.argument_value(call, "dtype")
        if isinstance(call.func, ast.Attribute) and last in ("astype", "view") and call.args:
            return self.format(call.args[0])
        if name.startswith("tensorflow."):
            return TENSOR
        if not name and isinstance(call.func, ast.Name) and last in ("len", "float", "int", "range"):
            return REAL if last == "float" else PLAIN
        if name.startswith("numpy.random.") or self._generator(call):
            if last in _FLOAT_DRAWS:
                return self.format(dtype) if dtype is not None else DOUBLE
            return WHOLE if last in _WHOLE_DRAWS else None
        if name.startswith("numpy."):
            return self._of_numpy(call, last, dtype, depth)
        if isinstance(call.func, ast.Attribute) and not name:
            base = self.of(call.func.value, depth - 1)
            if last in _SAME_FORMAT_METHODS:
                return base
            if last in ("mean", "std", "var") and base is not None:
                return _joined_format([base], floating=True)
        function = find.function_named(self.source, last, call) if isinstance(call.func, ast.Name) else None
        returned = (
            [n.value for n in syntax_tree.walk(function) if isinstance(n, ast.Return)] if function is not None else []
        )
        return self.of(returned[0], depth - 1) if len(returned) == 1 and returned[0] is not None else None

    def _of_numpy(self, call: ast.Call, last: str, dtype: ast.expr | None, depth: int) -> str | None:
        if last in ("float32", "float64"):
            return REAL
        if dtype is None and last in ("zeros", "ones", "empty", "array", "asarray") and len(call.args) > 1:
            dtype = call.args[1]
        if dtype is not None:
            return self.format(dtype)
        if last in _FLOAT_MAKERS:
            return DOUBLE
        if last in ("array", "asarray") and call.args:
            if isinstance(call.args[0], (ast.List, ast.Tuple)):
                return _literal_format(call.args[0]) or self.of(call.args[0], depth - 1)
            return self.of(call.args[0], depth - 1)
        if last == "arange":
            return {PLAIN: WHOLE, REAL: DOUBLE}.get(_joined_format([self.of(a, depth - 1) for a in call.args]) or "")
        if last == "where" and len(call.args) == 3:
            return _joined_format([self.of(a, depth - 1) for a in call.args[1:]])
        if last == "full" and len(call.args) > 1:
            return _literal_format(call.args[1])
        if last in _FLOAT_FUNCTIONS or last in _SAME_FORMAT_FUNCTIONS:
            given = call.args[:2] if last in _TWO_ARGUMENT_FUNCTIONS else call.args[:1]
            kind = _joined_format([self.of(a, depth - 1) for a in given], floating=last in _FLOAT_FUNCTIONS)
            # A NumPy scalar is float64 and makes float32 arrays float64 as well (since NumPy 2).
            return DOUBLE if last in _FLOAT_FUNCTIONS and kind in (PLAIN, REAL) else kind
        return WHOLE if last in _INDEX_FUNCTIONS else None

    def format(self, dtype: ast.expr) -> str | None:
        """The format that a dtype names. A dtype that the file has under its own name becomes float32 with the edit."""
        name = name_bindings.qualified_name(self.source, dtype).rpartition(".")[2]
        if isinstance(dtype, ast.Name) and not name:
            origin = setting_origins.literal_origin(self.source, dtype)
            value = origin.value if origin is not None else None
            if value in ("float64", "double"):
                return SINGLE
            name = value if isinstance(value, str) else dtype.id if dtype.id in ("float", "int", "bool") else ""
        elif isinstance(dtype, ast.Constant):
            name = str(dtype.value)
        if name in ("float64", "double", "float", "f8", "d", "float_"):
            return DOUBLE
        if name in ("float32", "float16", "single", "half", "f4", "f", "f2"):
            return SINGLE
        return WHOLE if name.startswith(("int", "uint", "bool", "str", "object", "i", "u")) else None

    def _generator(self, call: ast.Call) -> bool:
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(base, ast.Name):
            base = name_bindings.single_assignment(self.source, base)
        return isinstance(base, ast.Call) and name_bindings.qualified_name(self.source, base.func) in _RANDOM_GENERATORS


def _joined_format(kinds: list[str | None], floating: bool = False) -> str | None:
    """NumPy's result format: float64 if any is; also of float32 with integers."""
    if DOUBLE in kinds:
        return DOUBLE
    if TENSOR in kinds:
        return TENSOR
    if None in kinds or not kinds:
        return None
    if SINGLE in kinds:
        return DOUBLE if WHOLE in kinds else SINGLE
    if WHOLE in kinds:
        return DOUBLE if floating or REAL in kinds else WHOLE
    return REAL if floating or REAL in kinds else PLAIN


def _literal_format(node: ast.expr) -> str | None:
    """The format of an array of number literals."""
    numbers = [n for n in syntax_tree.walk(node) if isinstance(n, (ast.Constant, ast.Name, ast.Call, ast.Attribute))]
    if not numbers or not all(isinstance(n, ast.Constant) and isinstance(n.value, (int, float)) for n in numbers):
        return None
    return DOUBLE if any(isinstance(n, ast.Constant) and isinstance(n.value, float) for n in numbers) else WHOLE
