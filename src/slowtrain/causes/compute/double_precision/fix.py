"""A script in another number format: float32 where it computes in float64."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.evaluators.number_formats import DOUBLE, PLAIN, REAL, NumberFormats
from slowtrain.script.navigation import name_bindings
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

WIDE = ("float64", "double")
GLOBAL = frozenset({"set_floatx", "set_global_policy", "set_dtype_policy", "set_policy", "Policy", "DTypePolicy"})
# Keras makes its own format of arrays that these are given.
KERAS = frozenset({"fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch", "adapt"})
HARMLESS = frozenset(
    "print len str repr float int isinstance format type id round min max info debug append savez save savetxt plot "
    "hist scatter imshow axvline legend".split()
)
TYPED = frozenset(f"tensorflow.{name}" for name in ("constant", "convert_to_tensor", "Variable"))
CARRIERS = frozenset({"numpy_function", "py_function"})  # whose formats are told apart from their data


def single(source: Source) -> tuple[Edit, ...]:
    """The script in float32; nothing where it is not certain that all its formats fit together then."""
    named = _named(source)
    if named is None:
        return ()
    formats, casts = NumberFormats(source), []
    if any(find.called_name(n) in CARRIERS for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)):
        return ()
    for _ in range(8):  # each array that is cast makes those computed from it float32 as well
        found = [(node, holder) for node, holder in _leaving(source) if formats.of(node) == DOUBLE]
        value = _first_value(formats, [node for node, _ in found])
        if value is None:
            break
        formats.cast.add(value)
        casts += edits.append_to_chain(source, value, '.astype("float32")')
    rest = [pair for pair in _leaving(source) if pair[0] not in formats.cast]
    for node, holder in rest:
        kind = formats.of(node)
        if kind == DOUBLE:
            casts += _at(source, node, holder)
        elif kind is None and _boundary(source, holder):
            return ()
    return (*named, *casts)


def _named(source: Source) -> list[Edit] | None:
    """float64 by name, as TensorFlow and Keras are told it. None: somewhere it may mean something else."""
    done = []
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Attribute) and name_bindings.qualified_name(source, node) in (
            "tensorflow.float64",
            "tensorflow.double",
        ):
            done.append(edits.replace_node(source, node, f"{edits.node_text(source, node.value)}.float32"))
        elif isinstance(node, ast.Constant) and node.value in WIDE:
            use = _use(source, node)
            if use is None:
                return None
            if use:
                done.append(edits.replace_node(source, node, _quoted(source, node, "float32")))
        elif isinstance(node, ast.Attribute) and name_bindings.qualified_name(source, node) in (
            "numpy.float64",
            "numpy.double",
        ):
            done += [edits.replace_node(source, node, f"{edits.node_text(source, node.value)}.float32")] * bool(
                _use(source, node)
            )
    return done


def _quoted(source: Source, node: ast.Constant, text: str) -> str:
    return edits.node_text(source, node).replace(str(node.value), text)


def _use(source: Source, node: ast.expr) -> bool | None:
    """True: what TensorFlow or Keras are to compute in. False: what NumPy is. None: neither is certain."""
    above = find.parents_of(source)
    holder = above.get(node)
    keyword = holder if isinstance(holder, ast.keyword) else None
    if keyword is not None:
        holder = above.get(keyword)
    if isinstance(holder, ast.Call) and (keyword is not None or node in holder.args):
        name = name_bindings.qualified_name(source, holder.func)
        last = find.called_name(holder)
        if last in GLOBAL or name.startswith(("tensorflow.", "keras.")):
            return True
        if name.startswith(("numpy.", "pandas.")) or last == "astype" or _drawn(holder):
            return False
        if keyword is not None and keyword.arg in ("dtype", "autocast"):
            return True  # of a layer of one's own, or its weights
        return None
    if isinstance(holder, (ast.Assign, ast.AnnAssign)) and isinstance(node, ast.Constant):
        targets = holder.targets if isinstance(holder, ast.Assign) else [holder.target]
        plain = [t.id for t in targets if isinstance(t, ast.Name)]
        return True if plain and all("type" in name.lower() or "prec" in name.lower() for name in plain) else None
    if isinstance(holder, ast.arguments):
        return True
    return False if isinstance(holder, (ast.Compare, ast.Expr)) else None


def _drawn(call: ast.Call) -> bool:
    return find.called_name(call) in ("random", "standard_normal", "uniform", "normal", "rand", "randn")


def _leaving(source: Source) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Expressions that are handed to something else than NumPy, with what takes them."""
    above = find.parents_of(source)
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, (ast.Name, ast.Call, ast.BinOp, ast.Subscript, ast.UnaryOp)):
            continue
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        holder = above.get(node)
        while isinstance(holder, (ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.keyword, ast.IfExp)):
            holder = above.get(holder)
        if (
            (isinstance(holder, ast.Call) and node is not holder.func and _takes(source, holder))
            or isinstance(holder, (ast.Return, ast.Yield))
            or (isinstance(holder, (ast.For, ast.comprehension)) and node is holder.iter and isinstance(node, ast.Name))
        ):
            yield node, holder
        elif isinstance(holder, ast.BinOp) and isinstance(node, (ast.Name, ast.Subscript)):
            other = holder.right if node is holder.left else holder.left
            if NumberFormats(source).of(other) not in (DOUBLE, PLAIN, REAL, "single", "whole"):
                yield node, holder


def _takes(source: Source, call: ast.Call) -> bool:
    """Whether a call takes an array as it is: no function of NumPy's, nothing that only looks at it."""
    name = name_bindings.qualified_name(source, call.func)
    last = find.called_name(call)
    if name.startswith(("numpy.", "math.", "matplotlib.", "pandas.")) or last in HARMLESS or last in KERAS:
        return False
    if (
        isinstance(call.func, ast.Attribute)
        and not name
        and NumberFormats(source).of(call.func.value) in (DOUBLE, "single", "whole")
    ):
        return False  # a method of an array
    return last not in ("default_rng", "RandomState", "seed", "astype")


def _first_value(formats: NumberFormats, leaving: list[ast.expr]) -> ast.expr | None:
    """The first assignment of a float64 array that one of the names among ``leaving`` has its value from."""
    found: list[ast.expr] = []
    for node in leaving:
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Starred)):
            base = base.value
        given = (formats.assignments(base) or []) if isinstance(base, ast.Name) else []
        arrays = [v for v in given if not isinstance(v, (ast.Tuple, ast.Name)) and v not in formats.cast]
        found += [v for v in arrays if formats.of(v) == DOUBLE]
    return min(found, key=edits.node_start, default=None)


def _at(source: Source, node: ast.expr, holder: ast.AST) -> list[Edit]:
    """The array cast where it is handed over."""
    typed = isinstance(holder, ast.Call) and name_bindings.qualified_name(source, holder.func) in TYPED
    if typed and isinstance(holder, ast.Call) and find.argument_value(holder, "dtype") is not None:
        return []
    return edits.append_to_chain(source, node, '.astype("float32")')


def _boundary(source: Source, holder: ast.AST) -> bool:
    """Whether TensorFlow keeps the format of what ``holder`` is given."""
    if not isinstance(holder, ast.Call):
        return False
    name, last = name_bindings.qualified_name(source, holder.func), find.called_name(holder)
    return (name in TYPED and find.argument_value(holder, "dtype") is None) or last in (
        "from_tensor_slices",
        "from_tensors",
    )
