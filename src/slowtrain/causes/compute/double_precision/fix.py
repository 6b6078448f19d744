"""Edits that make a script compute in float32 instead of float64."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.compute.double_precision import DoublePrecisionWork
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.evaluators.number_formats import DOUBLE, PLAIN, REAL, NumberFormats
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.script.navigation import name_bindings
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

SINGLE_PRECISION_CURE = "compute in float32: remove set_floatx('float64'), make the data float32"
JAX_SINGLE_PRECISION_CURE = "compute in float32: remove jax_enable_x64 and set_floatx('float64'), make the data float32"
DOUBLE_NAMES = ("float64", "double")
FORMAT_SETTERS = frozenset(
    {"set_floatx", "set_global_policy", "set_dtype_policy", "set_policy", "Policy", "DTypePolicy"}
)
# Keras converts the arrays that it gets here to its own format.
CONVERTING_METHODS = frozenset(
    {"fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch", "adapt"}
)
FORMAT_NEUTRAL_CALLS = frozenset(
    "print len str repr float int isinstance format type id round min max info debug append savez save savetxt plot "
    "hist scatter imshow axvline legend".split()
)
TENSOR_MAKERS = frozenset(f"tensorflow.{name}" for name in ("constant", "convert_to_tensor", "Variable"))
PYTHON_OPS = frozenset({"numpy_function", "py_function"})  # their formats are given separately from their data


def find_cures(trace: Trace, _finding: DoublePrecisionWork) -> Iterable[Prescription]:
    says = JAX_SINGLE_PRECISION_CURE if trace.on_jax else SINGLE_PRECISION_CURE
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=_project_edits(trace))


def find_lines(trace: Trace, _finding: DoublePrecisionWork) -> Iterable[Place]:
    return source_places.edit_places(_project_edits(trace))


def _project_edits(trace: Trace) -> tuple[Edit, ...]:
    """All files of the project in float32, or none, because formats have to match."""
    done: list[Edit] = []
    for source in recorded_sources(trace):
        changed = single_precision_edits(source)
        if not changed and "float64" in source.text:
            return ()
        done += changed
    return tuple(done)


def single_precision_edits(source: Source) -> tuple[Edit, ...]:
    """The script in float32; nothing if its formats might not match then."""
    named = _format_name_edits(source)
    if named is None:
        return ()
    formats, casts = NumberFormats(source), []
    if any(find.called_name(n) in PYTHON_OPS for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)):
        return ()
    for _ in range(8):  # a cast array makes the arrays computed from it float32 as well
        found = [(node, holder) for node, holder in _handed_over_values(source) if formats.of(node) == DOUBLE]
        value = _first_double_value(formats, [node for node, _ in found])
        if value is None:
            break
        formats.cast.add(value)
        casts += edits.append_to_chain(source, value, '.astype("float32")')
    rest = [pair for pair in _handed_over_values(source) if pair[0] not in formats.cast]
    for node, holder in rest:
        kind = formats.of(node)
        if kind == DOUBLE:
            casts += _cast_edits(source, node, holder)
        elif kind is None and _is_boundary(source, holder):
            return ()
    return (*named, *casts)


def _format_name_edits(source: Source) -> list[Edit] | None:
    """Edits of the name float64 in calls of TensorFlow and Keras. None: a name may mean something else."""
    changed = []
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Attribute) and name_bindings.qualified_name(source, node) in (
            "tensorflow.float64",
            "tensorflow.double",
        ):
            changed.append(edits.replace_node(source, node, f"{edits.node_text(source, node.value)}.float32"))
        elif isinstance(node, ast.Constant) and node.value in DOUBLE_NAMES:
            use = _is_tensor_format(source, node)
            if use is None:
                return None
            if use:
                changed.append(edits.replace_node(source, node, _quoted_name(source, node, "float32")))
        elif isinstance(node, ast.Attribute) and name_bindings.qualified_name(source, node) in (
            "numpy.float64",
            "numpy.double",
        ):
            changed += [edits.replace_node(source, node, f"{edits.node_text(source, node.value)}.float32")] * bool(
                _is_tensor_format(source, node)
            )
    return changed


def _quoted_name(source: Source, node: ast.Constant, text: str) -> str:
    return edits.node_text(source, node).replace(str(node.value), text)


def _is_tensor_format(source: Source, node: ast.expr) -> bool | None:
    """True: a format of TensorFlow or Keras. False: a format of NumPy. None: not certain."""
    above = find.parents_of(source)
    holder = above.get(node)
    keyword = holder if isinstance(holder, ast.keyword) else None
    if keyword is not None:
        holder = above.get(keyword)
    if isinstance(holder, ast.Call) and (keyword is not None or node in holder.args):
        name = name_bindings.qualified_name(source, holder.func)
        last = find.called_name(holder)
        if last in FORMAT_SETTERS or name.startswith(("tensorflow.", "keras.")):
            return True
        if name.startswith(("numpy.", "pandas.")) or last == "astype" or _draws_numbers(holder):
            return False
        if keyword is not None and keyword.arg in ("dtype", "autocast"):
            return True  # of a custom layer, or its weights
        return None
    if isinstance(holder, (ast.Assign, ast.AnnAssign)) and isinstance(node, ast.Constant):
        targets = holder.targets if isinstance(holder, ast.Assign) else [holder.target]
        plain = [t.id for t in targets if isinstance(t, ast.Name)]
        return True if plain and all("type" in name.lower() or "prec" in name.lower() for name in plain) else None
    if isinstance(holder, ast.arguments):
        return True
    return False if isinstance(holder, (ast.Compare, ast.Expr)) else None


def _draws_numbers(call: ast.Call) -> bool:
    return find.called_name(call) in ("random", "standard_normal", "uniform", "normal", "rand", "randn")


def _handed_over_values(source: Source) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Expressions that are handed over to code other than NumPy, with what takes them."""
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
            (isinstance(holder, ast.Call) and node is not holder.func and _takes_arrays(source, holder))
            or isinstance(holder, (ast.Return, ast.Yield))
            or (isinstance(holder, (ast.For, ast.comprehension)) and node is holder.iter and isinstance(node, ast.Name))
        ):
            yield node, holder
        elif isinstance(holder, ast.BinOp) and isinstance(node, (ast.Name, ast.Subscript)):
            other = holder.right if node is holder.left else holder.left
            if NumberFormats(source).of(other) not in (DOUBLE, PLAIN, REAL, "single", "whole"):
                yield node, holder


def _takes_arrays(source: Source, call: ast.Call) -> bool:
    """Whether a call takes an array in its own format. Functions of NumPy and functions that only read it do not."""
    name = name_bindings.qualified_name(source, call.func)
    last = find.called_name(call)
    if (
        name.startswith(("numpy.", "math.", "matplotlib.", "pandas."))
        or last in FORMAT_NEUTRAL_CALLS
        or last in CONVERTING_METHODS
    ):
        return False
    if (
        isinstance(call.func, ast.Attribute)
        and not name
        and NumberFormats(source).of(call.func.value) in (DOUBLE, "single", "whole")
    ):
        return False  # a method of an array
    return last not in ("default_rng", "RandomState", "seed", "astype")


def _first_double_value(formats: NumberFormats, handed_over: list[ast.expr]) -> ast.expr | None:
    """The first assignment of a float64 array that one of the names among ``handed_over`` gets its value from."""
    found: list[ast.expr] = []
    for node in handed_over:
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Starred)):
            base = base.value
        given = (formats.assignments(base) or []) if isinstance(base, ast.Name) else []
        arrays = [v for v in given if not isinstance(v, (ast.Tuple, ast.Name)) and v not in formats.cast]
        found += [v for v in arrays if formats.of(v) == DOUBLE]
    return min(found, key=edits.node_start, default=None)


def _cast_edits(source: Source, node: ast.expr, holder: ast.AST) -> list[Edit]:
    """A cast of the array where it is handed over."""
    typed = isinstance(holder, ast.Call) and name_bindings.qualified_name(source, holder.func) in TENSOR_MAKERS
    if typed and isinstance(holder, ast.Call) and find.argument_value(holder, "dtype") is not None:
        return []
    return edits.append_to_chain(source, node, '.astype("float32")')


def _is_boundary(source: Source, holder: ast.AST) -> bool:
    """Whether TensorFlow keeps the format of what ``holder`` is given."""
    if not isinstance(holder, ast.Call):
        return False
    name, last = name_bindings.qualified_name(source, holder.func), find.called_name(holder)
    return (name in TENSOR_MAKERS and find.argument_value(holder, "dtype") is None) or last in (
        "from_tensor_slices",
        "from_tensors",
    )
