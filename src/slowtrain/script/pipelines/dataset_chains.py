"""A tf.data pipeline as the script's text has it: its operations in order, through variables and functions.

``ds.map(f).batch(8)``, ``ds = ds.map(f)`` line by line, or a function that returns the data set: all give one chain. If
the text does not tell (a branch, a loop, a function of another file), the chain begins in the middle.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from slowtrain.script.navigation import (
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    project_files,
    scope_names,
    setting_origins,
)
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

DATASET_OPERATIONS = frozenset(
    "apply batch bucket_by_sequence_length cache concatenate enumerate filter flat_map group_by_window ignore_errors "
    "interleave map padded_batch prefetch ragged_batch rebatch repeat scan shard shuffle skip snapshot "
    "sparse_batch take take_while unbatch unique window with_options".split()
)


def is_operation(call: ast.Call) -> bool:
    """Whether ``call`` may be an operation on a data set: a method of such a name."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in DATASET_OPERATIONS


def repeated_operation(block: ast.stmt, name: str) -> ast.Assign | None:
    """The statement of a branch or loop that rebinds ``name`` with operations on itself; None if it does otherwise."""
    if isinstance(block, ast.For) and name in scope_names.bound_names(block.target):
        return None
    body = [s for s in getattr(block, "body", ()) if name in scope_names.bound_names(s)]
    other = [s for s in getattr(block, "orelse", ()) if name in scope_names.bound_names(s)]
    if len(body) > 1 or len(other) > 1:
        return None
    found = [_own_operation(one, name) for one in (*body, *other)]
    known = [one for one in found if one is not None]
    alike = len({_operation_names(one) for one in known}) == 1
    return known[0] if alike and len(known) == len(found) else None


def _own_operation(statement: ast.stmt, name: str) -> ast.Assign | None:
    """``ds = ds.shuffle(n)``, also in an ``if`` or a loop inside; else None."""
    if isinstance(statement, (ast.If, ast.For)):
        return repeated_operation(statement, name)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    calls = list(node_lookup.chain_calls(statement.value))
    root = calls[-1].func if calls and all(is_operation(c) for c in calls) else None
    itself = isinstance(root, ast.Attribute) and isinstance(root.value, ast.Name) and root.value.id == name
    return statement if itself and isinstance(statement.targets[0], ast.Name) else None


def _operation_names(statement: ast.Assign) -> tuple[str, ...]:
    return tuple(node_lookup.called_name(c) for c in node_lookup.chain_calls(statement.value))


DATASET_MAKERS = frozenset(
    "from_tensor_slices from_tensors from_generator range counter zip list_files random sample_from_datasets "
    "choose_from_datasets load".split()
)
# Creation of a data set, also under an import alias.
_MAKER_PATTERN = re.compile(
    rf"Dataset{call_index.GAP_PATTERN}(?:\(|as\b|\.{call_index.GAP_PATTERN}(?:{'|'.join(sorted(DATASET_MAKERS))})\b)"
)
TFDS_LOAD = "tensorflow_datasets.load"
MAX_LINKS = 40  # functions and variables followed; a longer way is a cycle


class DatasetChain(Struct, frozen=True):
    """A chain of operations from its source on; ``whole`` if the first call makes the data set.

    If a function of another file makes it, ``entry`` is its call and ``begun`` the names of the operations there.
    ``whole`` is False then, since that file cannot be edited from here, and ``known`` is True.
    """

    calls: tuple[ast.Call, ...]
    whole: bool
    begun: tuple[str, ...] = ()
    entry: ast.Call | None = None

    @property
    def is_known(self) -> bool:
        """Whether all its operations are known."""
        return self.whole or bool(self.begun)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(node_lookup.called_name(c) for c in self.calls)

    def calls_before(self, call: ast.Call) -> tuple[ast.Call, ...]:
        return self.calls[: self.calls.index(call)]

    def calls_after(self, call: ast.Call) -> tuple[ast.Call, ...]:
        return self.calls[self.calls.index(call) + 1 :]


def makes_dataset(source: Source, call: ast.Call) -> bool:
    """Whether ``call`` creates a tf.data data set from something else."""
    name = scope_names.resolved_name(source, call.func)
    first, _, last = name.rpartition(".")
    if last.endswith("Dataset") and (".data." in name or name.startswith("data.")):
        return True
    if name == TFDS_LOAD:
        return node_lookup.argument_value(call, "split") is not None  # without it, a dictionary of data sets
    return last in DATASET_MAKERS and first.rpartition(".")[2] == "Dataset"


def may_make_dataset(source: Source) -> bool:
    """Whether the file may create a data set; by the text alone."""
    if "tensorflow_datasets" in source.plain:
        return True
    return "Dataset" in source.plain and _MAKER_PATTERN.search(source.plain) is not None


def chain_at(source: Source, line: int) -> ast.Call | None:
    """The last operation of the only chain at ``line``; None if there are several, or none."""
    found = [
        c
        for c in node_lookup.calls_at_line(source, line, *_operation_words(source))
        if is_operation(c) or makes_dataset(source, c)
    ]
    inside = {id(n) for c in found for a in (*c.args, *(k.value for k in c.keywords)) for n in syntax_tree.walk(a)}
    ends = {id(last): last for c in found if id(c) not in inside for last in [_chain_end(source, c)]}
    return next(iter(ends.values())) if len(ends) == 1 else None


def map_calls(source: Source, line: int, function_line: int | None = None, *names: str) -> list[ast.Call]:
    """Calls of ``map`` at ``line``; of several, those whose function is at ``function_line``."""
    found = [c for c in node_lookup.calls_at_line(source, line, *(names or ("map",))) if is_operation(c) and c.args]
    found = [c for c in found if may_be_dataset(upstream_chain(source, c))]
    if len(found) > 1 and function_line is not None:
        close = [c for c in found if _function_stands_at(source, c, function_line)]
        return close or found
    return found


def may_be_dataset(flow: DatasetChain) -> bool:
    """False if the chain surely begins with something else: ``executor.map``, ``"abc".take``."""
    first = flow.calls[0]
    if flow.whole or not isinstance(first.func, ast.Attribute):
        return True
    root = first.func.value
    return not (isinstance(root, ast.Name) and any(w in root.id.lower() for w in ("pool", "executor")))


def upstream_chain(source: Source, call: ast.Call) -> DatasetChain:
    """The operations up to and including ``call``."""
    found: list[ast.Call] = []
    node: ast.expr | None = call
    place: ast.AST = call
    entered: list[ast.Call] = []
    for _ in range(MAX_LINKS):
        if isinstance(node, ast.Call) and makes_dataset(source, node):
            return DatasetChain((node, *found), True)
        if isinstance(node, ast.Call) and is_operation(node):
            if node in found:
                break
            found.insert(0, node)
            assert isinstance(node.func, ast.Attribute)
            node = node.func.value
            continue
        if isinstance(node, ast.Call):
            returned = _single_return(source, node)
            if returned is None:
                return DatasetChain(
                    tuple(found), False, begun := _imported_operations(source, node), node if begun else None
                )
            entered.append(node)
            node = place = returned
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            written = setting_origins.written_value(source, node)
            if not isinstance(written, ast.Call):
                break
            node = place = written
            continue
        if not isinstance(node, ast.Name):
            break
        value = last_assignment(source, node, place)
        if value is None and not _is_rebound_before(source, node, place):
            value = parameter_argument(source, node, entered)
        if value is None:
            break
        node = place = value
    return DatasetChain(tuple(found), False)


def _imported_operations(source: Source, call: ast.Call) -> tuple[str, ...]:
    """The operations of the data set that ``call``, of a function in another file, returns; () if it is none."""
    found = project_files.imported_function(source, call.func)
    plain = found is not None and not found.function.decorator_list
    value = scope_names.single_return(found.function) if found is not None and plain else None
    for _ in range(MAX_LINKS):
        if found is None or not isinstance(value, ast.Name):
            break
        value = last_assignment(found.source, value, value)
    if found is None or not isinstance(value, ast.Call):
        return ()
    flow = upstream_chain(found.source, value)
    return (*flow.begun, *flow.names) if flow.is_known else ()


def chains_through(source: Source, call: ast.Call) -> list[DatasetChain]:
    """The longest chains that contain ``call``."""
    found = [flow for flow in all_chains(source) if call in flow.calls]
    return [f for f in found if not any(len(g.calls) > len(f.calls) and f.calls[-1] in g.calls for g in found)]


@cache_recent(4)
def all_chains(source: Source) -> tuple[DatasetChain, ...]:
    """The chains that end with an operation that no other one follows in its expression."""
    operating: list[ast.Call] = []
    for name in _operation_words(source):
        operating += [
            c for c in call_index.index_of(source).calls_of(name) if is_operation(c) or makes_dataset(source, c)
        ]
    inner = {id(c.func.value) for c in operating if is_operation(c) and isinstance(c.func, ast.Attribute)}
    return tuple(upstream_chain(source, c) for c in sorted(operating, key=edits.node_start) if id(c) not in inner)


@cache_recent(4)
def maker_names(source: Source) -> frozenset[str]:
    """The words of the file that may name functions which make data sets."""
    return frozenset(n for n in source.words if n.endswith("Dataset")) | (source.words & DATASET_MAKERS)


def _operation_words(source: Source) -> frozenset[str]:
    return maker_names(source) | (source.words & DATASET_OPERATIONS)


def _chain_end(source: Source, call: ast.Call) -> ast.Call:
    """The last operation on a data set in the expression that contains ``call``."""
    above = node_lookup.parents_of(source)
    node = call
    while True:
        attribute = above.get(node)
        outer = above.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if not (isinstance(outer, ast.Call) and outer.func is attribute and is_operation(outer)):
            return node
        node = outer


def _function_stands_at(source: Source, call: ast.Call, line: int) -> bool:
    function = call.args[0]
    if isinstance(function, ast.Name):
        found = node_lookup.function_named(source, function.id, call)
        return found is not None and found.lineno <= line <= (found.body[0].lineno)
    return function.lineno <= line <= (function.end_lineno or function.lineno)


def _single_return(source: Source, call: ast.Call) -> ast.expr | None:
    """The value of the only ``return`` of this file's function or method that ``call`` calls."""
    function = node_lookup.function_named(source, node_lookup.called_name(call), call)
    if function is None or isinstance(call.func, ast.Attribute) != class_members.is_method(source, function):
        return None
    if function.decorator_list and not (class_members.is_method(source, function) and _is_static(function)):
        return None
    return scope_names.single_return(function)


def last_assignment(source: Source, name: ast.Name, place: ast.AST) -> ast.expr | None:
    """The value that ``name`` was assigned last before ``place``, if the text decides it."""
    statement = node_lookup.enclosing_statement(source, place)
    above = node_lookup.parents_of(source)
    while statement is not None:
        block = scope_names.statement_block(source, statement)
        parent = above.get(statement)
        for earlier in reversed(block[: block.index(statement)]):
            if name.id in scope_names.bound_names(earlier):
                return _value_assigned(_binding_within(earlier, name.id), name.id)
        again = isinstance(parent, (ast.For, ast.While)) and name.id in scope_names.bound_names(parent)
        if again and isinstance(parent, ast.stmt) and repeated_operation(parent, name.id) is not statement:
            return None
        if not isinstance(parent, ast.stmt) or isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        statement = parent
    scope = scope_names.enclosing_scope(source, place)
    if isinstance(scope, ast.Module) or name.id in (
        *scope_names.parameter_names(scope),
        *scope_names.bound_names(scope_names.scope_body(scope)),
    ):
        return None
    found = scope_names.binding_statements(
        source, name.id, source.tree
    )  # a module-level name that is read in a function
    return _value_assigned(found[0], name.id) if len(found) == 1 else None


def _is_rebound_before(source: Source, name: ast.Name, place: ast.AST) -> bool:
    """Whether the function around rebinds a parameter before ``place``."""
    function = node_lookup.enclosing_function(source, place)
    stores = name_bindings.bindings_of(function, name.id) if function is not None else ()
    at = node_lookup.enclosing_statement(source, place)
    return any(isinstance(one, ast.Name) and at is not None and one.lineno < at.lineno for one in stores)


def _binding_within(statement: ast.stmt, name: str) -> ast.stmt:
    """The last statement inside ``with`` blocks that binds ``name``.

    For a branch or loop, the statement that adds an operation: ``if train: ds = ds.shuffle(n)``.
    """
    while isinstance(statement, (ast.With, ast.AsyncWith, ast.For, ast.If)):
        if isinstance(statement, (ast.For, ast.If)):
            return repeated_operation(statement, name) or statement
        inner = [s for s in statement.body if name in scope_names.bound_names(s)]
        if not inner:
            break  # the block's head binds it
        statement = inner[-1]
    return statement


def _value_assigned(statement: ast.AST, name: str) -> ast.expr | None:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.value
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        return value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs: Iterable[tuple[ast.expr, ast.expr]] = zip(target.elts, value.elts, strict=True)
        return next((v for t, v in pairs if isinstance(t, ast.Name) and t.id == name), None)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Call) and node_lookup.called_name(value) == "load":
        return (
            value if node_lookup.argument_value(value, "split") is not None else None
        )  # one of the splits of tfds.load
    return None


def _is_static(function: ast.FunctionDef) -> bool:
    """Whether a method is static."""
    return [scope_names.dotted_name(d) for d in function.decorator_list] == ["staticmethod"]


def parameter_argument(source: Source, name: ast.Name, entered: Sequence[ast.Call] = ()) -> ast.expr | None:
    """The argument for the parameter ``name``, of the call that led there or of the function's only call."""
    function = node_lookup.enclosing_function(source, name)
    if function is None or name.id not in scope_names.parameter_names(function):
        return None
    method = isinstance(function, ast.FunctionDef) and class_members.is_method(source, function)
    named = [
        c for c in call_index.index_of(source).calls_of(function.name) if isinstance(c.func, ast.Attribute) == method
    ]
    called = [c for c in entered if c in named] or named
    if len(called) != 1 or function.args.vararg or function.args.kwarg:
        return None
    if any(isinstance(a, ast.Starred) for a in called[0].args):
        return None
    bound = method and isinstance(function, ast.FunctionDef) and not _is_static(function)
    at = scope_names.parameter_names(function).index(name.id) - (1 if bound else 0)
    return node_lookup.argument_value(called[0], name.id, at) if at >= 0 else None
