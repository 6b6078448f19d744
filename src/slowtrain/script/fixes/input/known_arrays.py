"""Whether names of a script hold arrays, lists of equal length, row numbers or constants."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.interpreter import value_at
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

DRAWING_METHODS = frozenset(
    "normal uniform random rand randn randint integers choice standard_normal permutation random_sample poisson beta "
    "gamma exponential binomial laplace lognormal".split()
)
CONSTANT_FUNCTIONS = frozenset("int float str len bool range tempfile.gettempdir os.getcwd os.environ.get".split())


def table_kind(source: Source, name: ast.Name) -> str | None:
    """Return "arrays" for a NumPy array in memory, "lists" for lists of equal length with numbers, else None."""
    if queries.kind_at(source, name) == queries.ARRAY:
        return None if _may_be_mapped_file(source, name) else "arrays"
    return "lists" if value_at(source, name).kind == "list" and queries.shape_at(source, name) is not None else None


def _may_be_mapped_file(source: Source, name: ast.Name) -> bool:
    """Whether the array may be a file that is mapped into memory, which a conversion would read as a whole."""
    bound = name_bindings.bindings_of(name_bindings.binding_scope(source, name, name.id), name.id)
    values = [name_bindings.assigned_value(source, n) for n in bound if isinstance(n, ast.Name)]
    return any(isinstance(v, ast.Call) and node_lookup.called_name(v) in ("load", "memmap") for v in values)


def holds_row_numbers(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds an array of integers, such as a permutation, a range or a slice of one."""
    found = value_at(source, name)
    return found.kind == "array" and found.dtype.startswith("int")


def is_plain_constant(source: Source, name: str) -> bool:
    """Whether a module-level name is assigned once, to a number, a string or a tuple of them."""
    found = scope_names.binding_statements(source, name, source.tree)
    bound = list(name_bindings.bindings_of(source.tree, name))
    if len(found) != 1 or len(bound) != 1 or not isinstance(found[0], ast.Assign) or not isinstance(bound[0], ast.Name):
        return False
    value = name_bindings.assigned_value(source, bound[0])
    return value is not None and all(_is_immutable(source, n) for n in syntax_tree.walk(value))


def _is_immutable(source: Source, node: ast.AST) -> bool:
    """Whether an expression only creates immutable values."""
    if isinstance(node, ast.Call):
        name = scope_names.resolved_name(source, node.func)
        return name.startswith("os.path.") or name in CONSTANT_FUNCTIONS
    return not isinstance(node, (ast.List, ast.Dict, ast.Set, ast.Subscript, ast.ListComp, ast.DictComp, ast.SetComp))


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
        part = name_bindings.single_assignment(source, name)
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
            (
                i.context_expr
                for i in block.items
                if i.optional_vars and scope_names.dotted_name(i.optional_vars) == node.id
            ),
            None,
        )
        block = node_lookup.enclosing_node(source, block, ast.With)
    if not isinstance(given, ast.Call) or scope_names.resolved_name(source, given.func) != "h5py.File":
        return False
    mode = node_lookup.argument_value(given, "mode", 1)
    return mode is None or (isinstance(mode, ast.Constant) and mode.value == "r")


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


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
