"""Whether names of a script hold arrays, lists of equal length, row numbers or constants."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

ARRAY_METHODS = frozenset(
    "astype reshape copy transpose squeeze clip swapaxes repeat to_numpy ravel flatten view".split()
)
GENERATOR_FUNCTIONS = frozenset({"default_rng", "RandomState", "Generator"})
DRAWING_METHODS = frozenset(
    "normal uniform random rand randn randint integers choice standard_normal permutation random_sample poisson beta "
    "gamma exponential binomial laplace lognormal".split()
)
ROW_NUMBER_FUNCTIONS = frozenset({"permutation", "arange", "argsort", "randint", "integers", "choice"})
SCALAR_FUNCTIONS = frozenset(
    {"sum", "len", "float", "int", "min", "max", "abs", "round", "random", "uniform", "gauss", "randint"}
)
CONSTANT_FUNCTIONS = frozenset("int float str len bool range tempfile.gettempdir os.getcwd os.environ.get".split())
MAX_DEPTH = 12


def table_kind(source: Source, name: ast.Name) -> str | None:
    """Return "arrays" if every value of ``name`` is a NumPy array, "lists" if they are lists of equal length, else
    None.
    """
    values = _assigned_values(source, name)
    if values and all(_is_array(source, v, 0) for v in values):
        return "arrays"
    if len(values) == 1 and values[0] is not None and _is_rectangular(values[0]):
        return "lists"
    return None


def holds_row_numbers(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds an array of row numbers, such as a permutation, a range or a slice of one."""
    values = _assigned_values(source, name)
    return bool(values) and all(_are_row_numbers(source, v, 0) for v in values)


def is_plain_constant(source: Source, name: str) -> bool:
    """Whether a module-level name is assigned once, to a number, a string or a tuple of them."""
    found = scope_names.binding_statements(source, name, source.tree)
    if len(found) != 1 or not isinstance(found[0], ast.Assign):
        return False
    value = _assigned_part(found[0], name)
    return isinstance(value, ast.expr) and all(_is_immutable(source, n) for n in syntax_tree.walk(value))


def _is_immutable(source: Source, node: ast.AST) -> bool:
    """Whether an expression only creates immutable values."""
    if isinstance(node, ast.Call):
        name = scope_names.resolved_name(source, node.func)
        return name.startswith("os.path.") or name in CONSTANT_FUNCTIONS
    return not isinstance(node, (ast.List, ast.Dict, ast.Set, ast.Subscript, ast.ListComp, ast.DictComp, ast.SetComp))


def _assigned_values(source: Source, name: ast.Name) -> list[ast.expr | None]:
    """Return the values assigned to ``name`` in its scope; None for a value that the text does not show."""
    scope = scope_names.enclosing_scope(source, name)
    found = scope_names.binding_statements(source, name.id, scope)
    if not found and name.id not in scope_names.parameter_names(scope):
        found = scope_names.binding_statements(source, name.id, source.tree)
    plain = (ast.Assign, ast.AnnAssign, ast.AugAssign)
    return [
        (_assigned_part(f, name.id) or _returned_for_name(source, f, name.id)) if isinstance(f, plain) else None
        for f in found
    ]


def _returned_for_name(source: Source, statement: ast.stmt, name: str) -> ast.expr | None:
    """Return the part of the result of a function that is assigned to the name, as in ``x, y = made()``."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, made = statement.targets[0], _return_values(source, statement.value)
    if not isinstance(target, ast.Tuple) or len(made) != 1 or not isinstance(made[0], ast.Tuple):
        return None
    pairs = zip(target.elts, made[0].elts, strict=False) if len(target.elts) == len(made[0].elts) else ()
    return next((v for t, v in pairs if scope_names.is_name(t, name)), None)


def _return_values(source: Source, value: ast.expr) -> list[ast.expr]:
    """Return the expressions that a plain function of this file may return; empty if unknown."""
    made = (
        node_lookup.function_named(source, value.func.id, value)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
        else None
    )
    if made is None or made.decorator_list:
        return []
    own = list(scope_names.nodes_in_scope(made.body))
    found = [n.value for n in own if isinstance(n, ast.Return)]
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own):
        return []
    return [v for v in found if v is not None] if all(v is not None for v in found) else []


def _assigned_part(statement: ast.Assign | ast.AnnAssign | ast.AugAssign, name: str) -> ast.expr | None:
    """Return the value assigned to ``name``, or the call of ``load_data()`` whose result is unpacked."""
    if isinstance(statement, ast.AugAssign):
        return (
            ast.BinOp(statement.target, statement.op, statement.value)
            if scope_names.is_name(statement.target, name)
            else None
        )
    if isinstance(statement, ast.AnnAssign):
        return statement.value
    if len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if scope_names.is_name(target, name):
        return value
    if isinstance(value, ast.Call) and node_lookup.called_name(value) == "load_data":
        return value
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        pairs = zip(target.elts, value.elts, strict=False) if len(target.elts) == len(value.elts) else ()
        return next((v for t, v in pairs if scope_names.is_name(t, name)), None)
    return None


def _is_array(source: Source, node: ast.expr | None, depth: int) -> bool:
    """Whether ``node`` is certainly a NumPy array or one of its elements."""
    if node is None or depth > MAX_DEPTH:
        return False
    if isinstance(node, ast.BinOp):
        return _is_array(source, node.left, depth + 1) or _is_array(source, node.right, depth + 1)
    if isinstance(node, (ast.Compare, ast.Subscript)):
        inner = node.left if isinstance(node, ast.Compare) else node.value
        return _is_array(source, inner, depth + 1)
    if isinstance(node, ast.Name):
        values = [v for v in _assigned_values(source, node) if v is not None and not _mentions_name(v, node.id)]
        return bool(values) and all(_is_array(source, v, depth + 1) for v in values)
    if not isinstance(node, ast.Call):
        return False
    name = scope_names.resolved_name(source, node.func)
    if node_lookup.called_name(node) == "load_data" and ".datasets." in name:
        return True
    if name.startswith("numpy."):
        last = name.rpartition(".")[2]
        return last not in GENERATOR_FUNCTIONS and last not in ("load", "memmap", "nditer", "save")
    if not isinstance(node.func, ast.Attribute):
        made = _return_values(source, node)
        return bool(made) and all(_is_array(source, one, depth + 1) for one in made)
    base = node.func.value
    if node.func.attr in DRAWING_METHODS:
        return is_random_generator(source, base)
    return node.func.attr in ARRAY_METHODS and _is_array(source, base, depth + 1)


def _mentions_name(value: ast.expr, name: str) -> bool:
    return any(scope_names.is_name(n, name) for n in syntax_tree.walk(value))


def is_random_generator(source: Source, node: ast.expr) -> bool:
    """Whether ``node`` is a random generator of NumPy."""
    if isinstance(node, ast.Call):
        return node_lookup.called_name(node) in GENERATOR_FUNCTIONS
    if not isinstance(node, ast.Name):
        return False
    values = _assigned_values(source, node)
    return bool(values) and all(
        isinstance(v, ast.Call) and node_lookup.called_name(v) in GENERATOR_FUNCTIONS for v in values
    )


def _are_row_numbers(source: Source, node: ast.expr | None, depth: int) -> bool:
    if node is None or depth > MAX_DEPTH:
        return False
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and _are_row_numbers(source, node.value, depth + 1)
    if isinstance(node, ast.Name):
        values = [v for v in _assigned_values(source, node) if v is None or not _mentions_name(v, node.id)]
        return bool(values) and all(_are_row_numbers(source, v, depth + 1) for v in values)
    if not isinstance(node, ast.Call):
        return False
    name = scope_names.resolved_name(source, node.func)
    if name == "numpy.sort":
        return bool(node.args) and _are_row_numbers(source, node.args[0], depth + 1)
    if name.startswith("numpy.") and name.rpartition(".")[2] in ROW_NUMBER_FUNCTIONS:
        return True
    made = isinstance(node.func, ast.Attribute) and node.func.attr in ROW_NUMBER_FUNCTIONS
    return made and isinstance(node.func, ast.Attribute) and is_random_generator(source, node.func.value)


def _is_rectangular(node: ast.expr) -> bool:
    """Whether nested lists form a rectangular array."""
    if isinstance(node, ast.ListComp):
        inner = node.elt
        if isinstance(inner, ast.ListComp):
            fixed = len(inner.generators) == 1 and not inner.generators[0].ifs
            own = {n.id for g in node.generators for n in syntax_tree.walk(g.target) if isinstance(n, ast.Name)}
            over = inner.generators[0].iter
            length = (
                isinstance(over, ast.Call)
                and node_lookup.called_name(over) == "range"
                and not own & scope_names.read_names(over)
            )
            return fixed and length and _is_scalar(inner.elt)
        return _is_scalar(inner) or (isinstance(inner, ast.List) and all(_is_scalar(e) for e in inner.elts))
    if isinstance(node, ast.List) and node.elts:
        lengths = {len(e.elts) if isinstance(e, ast.List) else 0 for e in node.elts}
        parts = [p for e in node.elts for p in (e.elts if isinstance(e, ast.List) else [e])]
        return len(lengths) == 1 and all(_is_scalar(p) for p in parts)
    return False


def _is_scalar(node: ast.expr) -> bool:
    """Whether it is certainly a scalar."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.BinOp):
        left, right = _is_scalar(node.left), _is_scalar(node.right)
        return left and right
    if isinstance(node, ast.UnaryOp):
        return _is_scalar(node.operand)
    return isinstance(node, ast.Call) and node_lookup.called_name(node) in SCALAR_FUNCTIONS


def read_dataset_into_memory(source: Source, line: int) -> list[Edit]:
    """Replace ``f["x"]`` of an HDF5 file by ``f["x"][:]`` if the loop at ``line`` reads its rows.

    The caller has to make sure that the whole data set fits in memory.
    """
    names = {
        n.value.id: n.value for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.lineno <= line <= (n.end_lineno or 0)
        and scope_names.enclosing_loops(source, n)
    }  # fmt: skip
    found = []
    for name in names.values():
        values = _assigned_values(source, name)
        part = values[0] if len(values) == 1 else None
        stored = isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant)
        if not stored or not isinstance(part, ast.Subscript) or not _is_open_hdf5_file(source, part.value):
            continue
        if not isinstance(part.slice, ast.Constant) or not isinstance(part.slice.value, str):
            continue
        if _is_only_sliced(source, name.id):
            found.append(edits.insert_text(source, edits.node_end(part), "[:]"))
    return sorted(found, key=lambda e: e.start)


def _is_open_hdf5_file(source: Source, node: ast.expr) -> bool:
    """Whether ``node`` is an HDF5 file that is open for reading."""
    if not isinstance(node, ast.Name):
        return False
    given = dataset_chains.last_assignment(source, node, node)
    block = node_lookup.enclosing_node(source, node, ast.With)
    while given is None and isinstance(block, ast.With):
        given = next(
            (i.context_expr for i in block.items if i.optional_vars and scope_names.is_name(i.optional_vars, node.id)),
            None,
        )
        block = node_lookup.enclosing_node(source, block, ast.With)
    if not isinstance(given, ast.Call) or scope_names.resolved_name(source, given.func) != "h5py.File":
        return False
    mode = node_lookup.argument_value(given, "mode", 1)
    return mode is None or (isinstance(mode, ast.Constant) and mode.value == "r")


def _is_only_sliced(source: Source, name: str) -> bool:
    """Whether the file only slices ``name`` and reads its length and shape, without changing it in place."""
    above = node_lookup.parents_of(source)
    parts: set[str] = set()
    for node in syntax_tree.walk(source.tree):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        parent = above.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "dtype", "ndim", "size"):
            continue
        if isinstance(parent, ast.Call) and scope_names.dotted_name(parent.func) == "len":
            continue
        if not isinstance(parent, ast.Subscript) or parent.value is not node or not isinstance(parent.ctx, ast.Load):
            return False
        holder = above.get(parent)
        if isinstance(holder, ast.Assign):
            parts |= scope_names.bound_names(holder)
    for node in syntax_tree.walk(source.tree):
        target: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node.value
        if isinstance(target, ast.Name) and target.id in parts:
            return False
    return True
