"""Edits of generators behind ``from_generator`` and of sequences of batches."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits, dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

ENDLESS_FUNCTIONS = frozenset({"cycle", "count", "iter", "repeat"})
MUTATING_METHODS = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault fill resize put itemset popleft appendleft "
    "rotate add discard shuffle".split()
)
FILLING_FUNCTIONS = frozenset({"copyto", "putmask", "place", "put_along_axis", "fill_diagonal"})
SEQUENCE_CLASSES = frozenset({"PyDataset", "Sequence"})
SHORTENING_OPERATIONS = frozenset({"take", "shard", "skip"})


def use_tensor_slices(source: Source, line: int) -> list[Edit]:
    """Replace ``from_generator(f, ...)`` at ``line`` by ``from_tensor_slices`` of everything that ``f`` yields.

    ``f`` must end, yield the same elements in each call, and yield parts of fixed shape.
    """
    call = node_lookup.single_call(source, line, "from_generator")
    if call is None or not isinstance(call.func, ast.Attribute) or not dataset_chains.makes_dataset(source, call):
        return []
    several = dataset_chains.chains_through(source, call)
    if (
        any(SHORTENING_OPERATIONS & set(f.names) for f in several)
        or scope_names.enclosing_loops(source, call)
        or not _reads_whole_epochs(source)
    ):
        return []
    generator = node_lookup.argument_value(call, "generator", 0)
    spec = node_lookup.argument_value(call, "output_signature", 4)
    if (
        spec is None
        or not isinstance(generator, ast.Name)
        or not {k.arg for k in call.keywords} <= {"generator", "output_signature"}
        or not is_repeatable_generator(source, generator, call)
    ):
        return []
    function = node_lookup.function_named(source, generator.id)
    if function is None or scope_names.parameter_names(function) or not _has_known_shapes(spec):
        return []
    np, also = edits.ensure_import(source, "numpy", "np")
    zipped = f"zip(zip(*{generator.id}()), {edits.node_text(source, spec)})"
    array = f"tuple(\n        {np}.array(part, spec.dtype.as_numpy_dtype)\n        for part, spec in {zipped}\n    )"
    at, column = edits.node_end(call.func)
    begun = (at, column - len("from_generator"))
    row = source.text.splitlines()[call.lineno - 1]
    indent = row[: len(row) - len(row.lstrip())]
    text = f"from_tensor_slices(\n    {array}\n)".replace("\n", f"\n{indent}")
    return [*also, Edit(source.file, begun, edits.node_end(call), text)]


def is_repeatable_generator(source: Source, generator: ast.expr, near: ast.AST) -> bool:
    """Whether a generator of this file ends and yields the same elements in each call after ``near``."""
    start = node_lookup.function_named(source, generator.id, near) if isinstance(generator, ast.Name) else None
    if start is None or repeatable_functions.may_vary_by_call(source, start):
        return False
    bodies = source.reachable_functions(start)
    for node in (n for b in bodies for n in syntax_tree.walk(b)):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant):
            return False
        if isinstance(node, ast.Call) and node_lookup.called_name(node) in ENDLESS_FUNCTIONS:
            return False
    if not all(changes_only_own_results(b) for b in bodies if isinstance(b, ast.FunctionDef)):
        return False
    names = {n for b in (generator, *bodies) for n in scope_names.read_names(b)}
    return not any(later_changes(source, names, near))


def later_changes(source: Source, names: set[str], near: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes that may rebind ``names`` or change them in place after ``near``."""
    statement = node_lookup.enclosing_statement(source, near)
    after = (statement.end_lineno or statement.lineno) if statement is not None else 0
    scope = scope_names.enclosing_scope(source, near)
    for node in syntax_tree.walk(source.tree):
        place = getattr(node, "lineno", 0)
        later = place > after or scope_names.enclosing_scope(source, node) is not scope if place else False
        if not later:
            continue
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            if base_name(node) in names:
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING_METHODS:
            shuffled = {base_name(a) for a in node.args} if node.func.attr == "shuffle" else set()
            if base_name(node.func.value) in names or shuffled & names:
                yield node
        elif isinstance(node, ast.Call) and arrays_filled_by(node) & names:
            yield node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names:
            holder = scope_names.enclosing_scope(source, node)
            if holder is scope or (
                isinstance(holder, FUNCTION_NODES) and node.id in scope_names.declared_outer_names(holder)
            ):
                yield node


def arrays_filled_by(call: ast.Call) -> set[str]:
    """Return names of arrays that a NumPy call fills: ``np.copyto(x, y)``, ``np.add(x, y, out=x)``."""
    found = {base_name(k.value) for k in call.keywords if k.arg == "out"}
    if node_lookup.called_name(call) in FILLING_FUNCTIONS and call.args:
        found.add(base_name(call.args[0]))
    return found - {""}


def remember_batches(source: Source, line: int) -> list[Edit]:
    """Let ``__getitem__`` of the sequence at ``line`` keep its batches, if they are the same in each epoch."""
    classes = sequence_classes(source)
    holding = [c for c in classes if c.lineno <= line <= (c.end_lineno or c.lineno)]
    if len(classes) != 1 and len(holding) != 1:
        return []
    owner = (holding or classes)[0]
    methods = {n.name: n for n in owner.body if isinstance(n, ast.FunctionDef)}
    getting = methods.get("__getitem__")
    reached = source.reachable_functions(getting) if getting is not None else []
    inside = any(f.lineno <= line <= (f.end_lineno or f.lineno) for f in reached if isinstance(f, ast.FunctionDef))
    if getting is None or not inside or getting.decorator_list or not _is_immutable_sequence(source, owner, methods):
        return []
    if repeatable_functions.may_vary_by_call(source, getting) or not changes_only_own_results(getting):
        return []
    free = {n for f in reached for n in scope_names.read_names(f)} - {"self"}
    if any(later_changes(source, free, owner)):
        return []
    name, also = edits.ensure_import(source, "functools", "functools")
    return [*also, edits.add_decorator(source, getting, f"@{name}.lru_cache(maxsize=None)")]


def sequence_classes(source: Source) -> list[ast.ClassDef]:
    """Return the classes of the file that derive from PyDataset or Sequence."""
    every = call_index.nodes_of_class(source, ast.ClassDef)
    return [c for c in every if any(scope_names.dotted_name(b).rpartition(".")[2] in SEQUENCE_CLASSES for b in c.bases)]


def _is_immutable_sequence(source: Source, owner: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> bool:
    """Whether the attributes of a sequence are only set in ``__init__``, and its objects compare by identity."""
    if {"__eq__", "__hash__", "on_epoch_end", "on_epoch_begin"} & set(methods):
        return False
    if any(isinstance(n, ast.Name) and n.id == "dataclass" for d in owner.decorator_list for n in syntax_tree.walk(d)):
        return False
    attributes: set[str] = set()
    for name, method in methods.items():
        for node in syntax_tree.walk(method):
            stored = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
            if stored and isinstance(node, ast.Attribute) and name != "__init__":
                return False
            if isinstance(node, ast.Attribute) and scope_names.dotted_name(node).startswith("self."):
                attributes.add(node.attr)
            call = node.func if isinstance(node, ast.Call) else None
            changes = isinstance(call, ast.Attribute) and call.attr in MUTATING_METHODS and name != "__init__"
            if changes and isinstance(call, ast.Attribute) and base_name(call.value) == "self":
                return False
    inside = set(syntax_tree.walk(owner))
    for node in syntax_tree.walk(source.tree):
        outside = isinstance(node, ast.Attribute) and node not in inside and node.attr in attributes
        if outside and isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, ast.keyword) and node.arg == "use_multiprocessing":
            return False  # each process would keep separate copies
    return True


def changes_only_own_results(function: ast.FunctionDef) -> bool:
    """Whether the function changes in place only objects that it creates itself."""
    own = moved_statements.own_names(function)
    for node in syntax_tree.walk(function):
        stored = isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load)
        if stored and isinstance(node, ast.expr) and base_name(node) not in own:
            return False
        if isinstance(node, ast.AugAssign) and base_name(node.target) not in own:
            return False
        method = node.func if isinstance(node, ast.Call) else None
        changes = isinstance(method, ast.Attribute) and method.attr in MUTATING_METHODS
        if changes and isinstance(method, ast.Attribute) and base_name(method.value) not in own:
            return False
    return True


def _has_known_shapes(spec: ast.expr) -> bool:
    """Whether a signature is ``(TensorSpec(…), …)`` or ``tuple([TensorSpec(…)] * n)``, of known shapes."""
    if isinstance(spec, ast.Call) and node_lookup.called_name(spec) == "tuple" and len(spec.args) == 1:
        return _has_known_shapes(spec.args[0])
    if isinstance(spec, ast.BinOp) and isinstance(spec.op, ast.Mult):
        return _has_known_shapes(spec.left)
    return isinstance(spec, (ast.Tuple, ast.List)) and bool(spec.elts) and all(map(_is_known_tensor, spec.elts))


def _is_known_tensor(spec: ast.expr) -> bool:
    """Whether it is ``TensorSpec((3, N), …)``, without a dimension that is None."""
    is_tensor = isinstance(spec, ast.Call) and node_lookup.called_name(spec) == "TensorSpec"
    shape = node_lookup.argument_value(spec, "shape", 0) if is_tensor and isinstance(spec, ast.Call) else None
    return isinstance(shape, (ast.Tuple, ast.List)) and not any(
        isinstance(d, ast.Starred) or (isinstance(d, ast.Constant) and not isinstance(d.value, int)) for d in shape.elts
    )


def base_name(node: ast.expr) -> str:
    """``x`` of ``x.y[0].z``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _reads_whole_epochs(source: Source) -> bool:
    """Whether no call in the file sets the batches of an epoch. Otherwise, a generator may be read in part only."""
    named: Iterable[ast.keyword] = call_index.nodes_of_class(source, ast.keyword)
    return not any(k.arg in ("steps_per_epoch", "max_steps", "train_steps") for k in named)


HELPER_NAME = "batched_generator"
CHUNK_SAMPLES = 32  # samples per yield if an operation stands between the generator and ``batch``
HELPER_CODE = '''
def {name}(generator, spec, size, drop_remainder=False):
    """The samples of ``generator`` in the same order, handed to TensorFlow a batch at a time."""

    def parts(sample, spec):
        if isinstance(spec, dict):
            return [part for key in sorted(spec) for part in parts(sample[key], spec[key])]
        if isinstance(spec, tuple):
            return [part for one, inner in zip(sample, spec) for part in parts(one, inner)]
        return [{np}.array(sample, spec.dtype.as_numpy_dtype)]

    def batches():
        samples = iter(generator())
        while chunk := [parts(one, spec) for one in {itertools}.islice(samples, size)]:
            if len(chunk) == size or not drop_remainder:
                yield {tf}.nest.pack_sequence_as(spec, [{np}.stack(part) for part in zip(*chunk)])

    first = [size if drop_remainder else None]
    whole = {tf}.nest.map_structure(lambda part: {tf}.TensorSpec(first + part.shape.as_list(), part.dtype), spec)
    return {tf}.data.Dataset.from_generator(batches, output_signature=whole)

'''


def yield_batches(source: Source, line: int) -> list[Edit]:
    """Let the generator of ``from_generator(f, output_signature=s).batch(n)`` at ``line`` yield batches.

    Without ``batch`` directly behind it, ``unbatch()`` follows. Samples, order and random draws stay the same.
    """
    call = node_lookup.single_call(source, line, "from_generator")
    if call is None or HELPER_NAME in source.text or not dataset_chains.makes_dataset(source, call):
        return []
    taken = {k.arg for k in call.keywords}
    generator, spec = (
        node_lookup.argument_value(call, "generator", 0),
        node_lookup.argument_value(call, "output_signature", 4),
    )
    if generator is None or spec is None or len(call.args) > 1 or not taken <= {"generator", "output_signature"}:
        return []
    top: ast.AST | None = call
    above = node_lookup.parents_of(source)
    while top is not None and not isinstance(above.get(top), ast.Module):
        top = above.get(top)
    if not has_known_shapes(source, spec, call) or not isinstance(top, ast.stmt):
        return []
    several = dataset_chains.chains_through(source, call)
    after = several[0].calls_after(call) if len(several) == 1 else ()
    size, drop, gone = _batch_after(source, call, after[0]) if after else ("", "", [])
    arguments = [
        edits.node_text(source, generator),
        edits.node_text(source, spec),
        size or str(CHUNK_SAMPLES),
        *([drop] if drop else []),
    ]
    call_text = f"{HELPER_NAME}({', '.join(arguments)})" + ("" if size else ".unbatch()")
    names, more = {}, []
    for module, usual in (("tensorflow", "tf"), ("numpy", "np"), ("itertools", "itertools")):
        names[usual], also = edits.ensure_import(source, module, usual)
        more += also
    return [
        *more,
        edits.insert_before(source, top, HELPER_CODE.format(name=HELPER_NAME, **names)),
        edits.replace_node(source, call, call_text),
        *gone,
    ]


def _batch_after(source: Source, call: ast.Call, batch: ast.Call) -> tuple[str, str, list[Edit]]:
    """Return the batch size, the text of the chain without ``batch``, and further edits."""
    nothing: tuple[str, str, list[Edit]] = ("", "", [])
    if node_lookup.called_name(batch) != "batch" or not isinstance(batch.func, ast.Attribute):
        return nothing
    size, drop = (
        node_lookup.argument_value(batch, "batch_size", 0),
        node_lookup.argument_value(batch, "drop_remainder", 1),
    )
    if size is None or len(batch.args) > 2 or not {k.arg for k in batch.keywords} <= {"batch_size", "drop_remainder"}:
        return nothing
    if not chain_edits.are_movable(source, [call, batch]):
        return nothing
    without = Edit(source.file, edits.node_end(batch.func.value), edits.node_end(batch), "")
    return edits.node_text(source, size), edits.node_text(source, drop) if drop is not None else "", [without]


def has_known_shapes(source: Source, spec: ast.expr, near: ast.AST) -> bool:
    """Whether every part of a signature is a tensor with a fully known shape."""
    if isinstance(spec, ast.Name):
        value = dataset_chains.last_assignment(source, spec, near)
        return value is not None and not isinstance(value, ast.Name) and has_known_shapes(source, value, value)
    if isinstance(spec, ast.Tuple):
        return bool(spec.elts) and all(has_known_shapes(source, e, near) for e in spec.elts)
    if isinstance(spec, ast.Dict):
        return (
            bool(spec.values) and None not in spec.keys and all(has_known_shapes(source, v, near) for v in spec.values)
        )
    if not isinstance(spec, ast.Call) or name_bindings.qualified_name(source, spec.func) != "tensorflow.TensorSpec":
        return False
    shape = node_lookup.argument_value(spec, "shape", 0)
    dims = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else [shape]
    open_ = (d is None or isinstance(d, ast.Starred) or (isinstance(d, ast.Constant) and d.value is None) for d in dims)
    return isinstance(shape, (ast.Tuple, ast.List)) and not any(open_)
