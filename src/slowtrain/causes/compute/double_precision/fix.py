"""Edits that make a script compute in float32 instead of float64."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.compute.double_precision import DoublePrecisionWork
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.interpreter.domain.abstract_values import INTEGER_DTYPES, Value, join_values
from slowtrain.script.interpreter.domain.operators import FLOAT_CONSTANTS
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.interpreter import value_at
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.script.navigation import call_index, name_bindings
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

SINGLE_PRECISION_CURE = "compute in float32: remove set_floatx('float64'), make the data float32"
JAX_SINGLE_PRECISION_CURE = "compute in float32: remove jax_enable_x64 and set_floatx('float64'), make the data float32"
DOUBLE, SINGLE, WHOLE, TENSOR = "double", "single", "whole", "tensor"
PLAIN, REAL = "plain", "real"  # Python ints and texts; Python floats, which take an array's format
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
MAX_CASTS = 32
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
    named = _format_names(source)
    if named is None:
        return ()
    if any(find.called_name(n) in PYTHON_OPS for n in call_index.nodes_of_class(source, ast.Call)):
        return ()
    handed_over = list(_handed_over_values(source))
    recast, casts = set(named), list[Edit]()
    for _ in range(MAX_CASTS):  # a cast array makes the arrays computed from it float32 as well
        known = frozenset(recast)
        found = [one for one in handed_over if one[0] not in known and _format_at(source, one[0], known) == DOUBLE]
        arrays = _next_casts(source, found, known)
        if not arrays:
            break
        recast |= set(arrays)
        casts += [one for value, holder in arrays.items() for one in _cast_edits(source, value, holder)]
    known = frozenset(recast)
    for node, holder in handed_over:
        if node not in known and _is_boundary(source, holder) and _format_at(source, node, known) is None:
            return ()
    return (*(edits.replace_node(source, node, text) for node, text in named.items()), *casts)


def _format_at(source: Source, node: ast.expr, recast: frozenset[ast.expr] = frozenset()) -> str | None:
    """The number format of an expression, if an edit makes ``recast`` float32; None if unknown."""
    return _format_of(value_at(source, node, recast))


def _format_of(value: Value) -> str | None:
    match value.kind:
        case "tensor" | "variable":
            return TENSOR
        case "text" | "none":
            return PLAIN
        case "number":
            return REAL if value.name == "float" else PLAIN
        case "library":
            return REAL if value.name in FLOAT_CONSTANTS else None
        case "list" | "tuple":
            return _format_of(join_values(value.items.values())) if value.items else PLAIN
        case "array" if value.dtype in INTEGER_DTYPES:
            return WHOLE
        case "array":
            return {"float64": DOUBLE, "float32": SINGLE, "float16": SINGLE}.get(value.dtype)
    return None


def _format_names(source: Source) -> dict[ast.expr, str] | None:
    """The names float64 in calls of TensorFlow and Keras, and their new texts. None: one may mean something else."""
    changed: dict[ast.expr, str] = {}
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Attribute) and name_bindings.qualified_name(source, node) in (
            "tensorflow.float64",
            "tensorflow.double",
        ):
            changed[node] = f"{edits.node_text(source, node.value)}.float32"
        elif isinstance(node, ast.Constant) and node.value in DOUBLE_NAMES:
            use = _is_tensor_format(source, node)
            if use is None:
                return None
            if use:
                changed[node] = edits.node_text(source, node).replace(str(node.value), "float32")
        elif (
            isinstance(node, ast.Attribute)
            and name_bindings.qualified_name(source, node) in ("numpy.float64", "numpy.double")
            and _is_tensor_format(source, node)
        ):
            changed[node] = f"{edits.node_text(source, node.value)}.float32"
    return changed


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
            if _format_at(source, other) in (None, TENSOR):
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
    owner = value_at(source, call.func.value) if isinstance(call.func, ast.Attribute) and not name else None
    if owner is not None and (owner.kind == "array" or owner.name.startswith("numpy.random.")):
        return False  # a method of an array, or of a generator of random numbers
    return last not in ("default_rng", "RandomState", "seed", "astype")


def _next_casts(
    source: Source, handed_over: list[tuple[ast.expr, ast.AST]], recast: frozenset[ast.expr]
) -> dict[ast.expr, ast.AST | None]:
    """Float64 arrays to cast: assigned to names among ``handed_over``, or handed over, with what takes them.

    All that are computed from no other float64 array of the script; else the first of the others.
    """
    found: dict[ast.expr, ast.AST | None] = {}
    for node, holder in handed_over:
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Starred)):
            base = base.value
        given = _assigned_values(source, base) if isinstance(base, ast.Name) else []
        arrays = [v for v in given if not isinstance(v, ast.Name) and v not in recast and _is_double(source, v, recast)]
        found |= dict.fromkeys(arrays, None) or {node: holder}
    made = {one: holder for one, holder in found.items() if not _reads_double(source, one, recast)}
    first = min(found, key=edits.node_start, default=None)
    return made or ({first: found[first]} if first is not None else {})


def _reads_double(source: Source, node: ast.expr, recast: frozenset[ast.expr]) -> bool:
    """Whether a float64 array under a name, or of a function of the script, is part of an expression."""
    for one in syntax_tree.walk(node):
        if isinstance(one, ast.Name) and _is_double(source, one, recast):
            return True
        if isinstance(one, ast.Call) and queries.called_function(source, one) is not None:
            return True
    return False


def _is_double(source: Source, node: ast.expr, recast: frozenset[ast.expr]) -> bool:
    value = value_at(source, node, recast)
    return value.kind == "array" and value.dtype == "float64"


def _assigned_values(source: Source, name: ast.Name) -> list[ast.expr]:
    """All values assigned to a name in its scope; empty if it is also bound in another way than by ``+=``."""
    where, above = name_bindings.binding_scope(source, name, name.id), find.parents_of(source)
    found: list[ast.expr] = []
    for store in name_bindings.bindings_of(where, name.id):
        value = name_bindings.assigned_value(source, store) if isinstance(store, ast.Name) else None
        if value is None and not isinstance(above.get(store), ast.AugAssign):
            return []
        found += [value] if value is not None else []
    return found


def _cast_edits(source: Source, node: ast.expr, holder: ast.AST | None) -> list[Edit]:
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
