"""Lint rules about slow Python in input code: single samples, loops over single numbers.

They check generators behind ``from_generator`` or ``fit``, sequences of batches, and functions of ``numpy_function``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from slowtrain.script.evaluators import setting_origins
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules.input import sample_loops
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.pipelines import dataset_chains, element_sizes, whole_pipelines
from slowtrain.script.properties import handwritten_steps
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FILE_READERS, FUNCTION_NODES, Source

PASSING_FUNCTIONS = frozenset(
    {"enumerate", "iter", "tqdm", "islice", "cycle"}
)  # they yield the items of their argument
SEQUENCE_CLASSES = frozenset({"PyDataset", "Sequence"})
PYTHON_FUNCTION_OPS = ("numpy_function", "py_function")
MIN_SAMPLES = 1000  # per epoch. At about 50 µs each, fewer take less than 0.1 s.
SCALAR_FUNCTIONS = frozenset(
    "append abs min max int float round len range sqrt exp log sin cos tanh floor ceil rand random".split()
)
ARRAY_FUNCTIONS = frozenset(
    "append extend range zip enumerate len min max int float tuple list dict islice get pop split".split()
)
NUMPY_CONVERSIONS = frozenset(
    "array asarray zeros ones float32 int32 int64 float64 uint8 stack concatenate pad full".split()
)
KEEPING_METHODS = (
    ARRAY_FUNCTIONS
    | NUMPY_CONVERSIONS
    | frozenset("permutation shuffle arange astype reshape randint integers random searchsorted mean std sum".split())
)


@dataclass(frozen=True)
class InputFunction:
    """A Python function that runs for each element or batch of the training input.

    ``single``: it runs for one element of a map. ``each``: it runs for one sample that is batched later.
    """

    function: ast.FunctionDef | ast.Lambda
    given: ast.expr
    single: bool
    each: bool = False


@dataclass(frozen=True)
class SlowPart:
    """Slow Python between ``start`` and ``end``. ``call``: its ``from_generator``, if any.

    ``instead``: the advice if there is no generator.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    call: ast.Call | None = None
    instead: str = "replace the loop over elements by array code or TensorFlow ops"


def slow_parts(source: Source) -> Iterator[SlowPart]:
    """Find the first slow part of each input function."""
    for call in call_index.index_of(source).called("from_generator"):
        found = _sample_generator(source, call)
        if found is not None:
            yield found
    seen: set[ast.AST] = set()
    for maker in input_functions(source):
        if maker.function in seen:
            continue
        seen.add(maker.function)
        slow = _nested_element_loop(source, maker) or _sample_comprehension(source, maker) or _slow_loop(source, maker)
        if slow is not None:
            yield slow


def input_functions(source: Source) -> Iterator[InputFunction]:
    """Yield the functions of this file that make input without worker processes."""
    for call in call_index.index_of(source).called("from_generator", *PYTHON_FUNCTION_OPS):
        given = node_lookup.argument_value(
            call, "generator" if node_lookup.called_name(call) == "from_generator" else "func", 0
        )
        if node_lookup.called_name(call) in PYTHON_FUNCTION_OPS:
            outer = node_lookup.argument_value(call, "func", 0)
            given = outer if name_bindings.qualified_name(source, call.func).startswith("tensorflow.") else None
        elif not dataset_chains.makes_dataset(source, call) or any(
            "cache" in f.names for f in whole_pipelines.pipelines_with(source, call)
        ):
            continue
        made = _called_function(source, given, call)
        if made is not None and given is not None:
            yield InputFunction(
                made, given, node_lookup.called_name(call) in PYTHON_FUNCTION_OPS, _is_per_sample(source, call)
            )
    for call in call_index.index_of(source).called("fit", "fit_generator"):
        given = node_lookup.argument_value(call, "x", 0) or node_lookup.argument_value(call, "generator")
        if given is not None and node_lookup.argument_value(call, "workers") is None:
            yield from _iterated_functions(source, given, call)
    for steps in handwritten_steps.step_loops_of(source):
        if isinstance(steps.loop, ast.For):
            yield from _iterated_functions(source, steps.loop.iter, steps.loop)
    yield from _sequence_functions(source)


def _is_per_sample(source: Source, call: ast.Call) -> bool:
    """Whether the function runs for one sample, because batches are made later."""
    places = [call]
    if node_lookup.called_name(call) in PYTHON_FUNCTION_OPS:
        holder = node_lookup.enclosing_node(source, call, ast.Lambda) or node_lookup.enclosing_function(source, call)
        maps = [c for c in call_index.index_of(source).called("map") if dataset_chains.is_operation(c)]
        places = [
            c for c in maps if whole_pipelines.mapped_function(source, c) in (holder, _surrounding_lambda(source, call))
        ]
    several = [(f, c) for c in places for f in whole_pipelines.pipelines_with(source, c)]
    return bool(several) and all(whole_pipelines.is_element_wise(f, c) for f, c in several)


def _surrounding_lambda(source: Source, node: ast.AST) -> ast.AST | None:
    above = node_lookup.parents_of(source)
    found: ast.AST | None = node
    while found is not None and not isinstance(found, (ast.Lambda, ast.stmt)):
        found = above.get(found)
    return found if isinstance(found, ast.Lambda) else None


def _iterated_functions(source: Source, given: ast.expr, near: ast.AST) -> Iterator[InputFunction]:
    """Yield the generator of this file that training iterates over: a function, method or object."""
    while isinstance(given, ast.Call) and node_lookup.called_name(given) in PASSING_FUNCTIONS and given.args:
        given = given.args[0]
    if isinstance(given, ast.Name):
        given = (
            dataset_chains.last_assignment(source, given, near)
            or dataset_chains.parameter_argument(source, given)
            or given
        )
    if not isinstance(given, ast.Call):
        return
    made = node_lookup.function_named(source, node_lookup.called_name(given), near)
    if made is None:
        made = _object_method(source, given, "__next__") or _object_method(source, given, "__iter__")
    next_one = made is not None and made.name == "__next__"
    if made is not None and (
        next_one or any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(scope_names.scope_body(made)))
    ):
        yield InputFunction(made, given, False)


def _may_have_sequences(source: Source) -> bool:
    return "__getitem__" in source.words and not source.words.isdisjoint(SEQUENCE_CLASSES)


def _sequence_functions(source: Source) -> Iterator[InputFunction]:
    """Yield ``__getitem__`` of sequences that this file uses without workers."""
    for node in call_index.nodes_of_kind(source, ast.ClassDef) if _may_have_sequences(source) else ():
        assert isinstance(node, ast.ClassDef)
        bases = [name_bindings.qualified_name(source, b) for b in node.bases]
        if not any(b.startswith("keras.") and b.rpartition(".")[2] in SEQUENCE_CLASSES for b in bases):
            continue
        made = call_index.index_of(source).called(node.name)
        inner = [c for n in node.body for c in whole_pipelines.calls_in([n])]
        if not made or any(node_lookup.argument_value(c, "workers") is not None for c in (*made, *inner)):
            continue
        if any(
            node_lookup.argument_value(c, "workers") is not None
            for c in call_index.index_of(source).called("fit", "fit_generator")
        ):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                yield InputFunction(method, node.bases[0], False)


def _object_method(source: Source, given: ast.expr, name: str) -> ast.FunctionDef | None:
    """Return the method of the object ``given``, if its class is in this file."""
    holder = setting_origins.instance_class(source, given)
    made = class_members.own_method(holder, name) if holder is not None else None
    return made if isinstance(made, ast.FunctionDef) else None


def _called_function(
    source: Source, given: ast.expr | None, near: ast.AST, depth: int = sample_loops.MAX_CALL_DEPTH
) -> ast.FunctionDef | ast.Lambda | None:
    """Return the function that a call of ``given`` runs: itself, its only callee, or ``__call__`` of an object.

    For a parameter, the function that all calls pass.
    """
    if isinstance(given, ast.Lambda):
        inner = given.body.func if isinstance(given.body, ast.Call) else None
        return _named_function(source, inner, near) or given
    made = _named_function(source, given, near)
    if made is not None or not depth:
        return made
    if isinstance(given, ast.Call) and node_lookup.called_name(given) == "partial" and given.args:
        return _called_function(source, given.args[0], near, depth - 1)
    if not isinstance(given, ast.Name):
        return None
    function = node_lookup.enclosing_function(source, given)
    several = [name_bindings.single_assignment(source, given)]
    if function is not None and given.id in scope_names.parameter_names(function):
        several = [*call_arguments.arguments_for(source, function, given.id)]
    found = {_called_function(source, one, one, depth - 1) for one in several if one is not None}
    return found.pop() if len(found) == 1 else None


def _named_function(source: Source, given: ast.expr | None, near: ast.AST) -> ast.FunctionDef | None:
    made: ast.FunctionDef | None = None
    if isinstance(given, ast.Name):
        made = node_lookup.function_named(source, given.id, near)
    elif isinstance(given, ast.Attribute):
        made = node_lookup.function_named(source, given.attr, near) or _object_method(source, given.value, given.attr)
    if made is None and given is not None and "__call__" in source.text:
        made = _object_method(source, given, "__call__")
    return made


# -- samples one by one


def _sample_generator(source: Source, call: ast.Call) -> SlowPart | None:
    """Find a generator that slices single samples from memory, which are batched afterwards."""
    given = node_lookup.argument_value(call, "generator", 0)
    made = _called_function(source, given, call) if dataset_chains.makes_dataset(source, call) else None
    several = whole_pipelines.pipelines_with(source, call)
    if given is None or not isinstance(made, ast.FunctionDef) or not several:
        return None
    if any("cache" in f.names or not whole_pipelines.is_element_wise(f, call) for f in several):
        return None
    if (element_sizes.element_count(source, several[0]) or MIN_SAMPLES) < MIN_SAMPLES:
        return None
    statements = whole_pipelines.reached_statements(source, made)
    yields = [n for s in statements for n in syntax_tree.walk(s) if isinstance(n, ast.Yield)]
    if (
        not yields
        or not all(scope_names.enclosing_loops(source, y) for y in yields)
        or not _reads_memory_only(source, made, statements)
    ):
        return None
    name = f"{made.name}()" if isinstance(given, (ast.Name, ast.Lambda)) else "this generator"
    says = f"{name} hands over one sample at a time out of data that is in memory"
    return SlowPart(edits.node_start(given), edits.node_end(given), says, call)


def _reads_memory_only(source: Source, made: ast.FunctionDef, statements: list[ast.AST]) -> bool:
    """Whether a generator only iterates over data of this file, and only slices, pads and converts it."""
    for call in whole_pipelines.calls_in(statements):
        name, whole = node_lookup.called_name(call), name_bindings.qualified_name(source, call.func)
        known = node_lookup.function_named(source, name, call) is not None or whole.startswith("numpy.random.")
        if not known and name not in KEEPING_METHODS:
            return False
    for node in (n for s in statements for n in syntax_tree.walk(s)):
        over = node.iter if isinstance(node, ast.For) else None
        names = {n.id for n in syntax_tree.walk(over) if isinstance(n, ast.Name)} if over is not None else set()
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            names = {node.value.id}
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            held = setting_origins.written_value(source, node.value)
            if held is None or not _is_memory_value(source, held):
                return False
        for name in names:
            if not _is_memory_name(source, name, made):
                return False
    return True


def _is_memory_name(source: Source, name: str, made: ast.FunctionDef) -> bool:
    """Whether a name that a generator reads is local, a number, or data created in this file."""
    inner = (g.target for n in syntax_tree.walk(made) for g in getattr(n, "generators", ()))
    own = scope_names.bound_names(made.body) | {
        n.id for t in inner for n in syntax_tree.walk(t) if isinstance(n, ast.Name)
    }
    if name in own or name in ("range", "zip", "enumerate", "len", "list", "reversed", "sorted", "np", "numpy"):
        return True
    if name in scope_names.parameter_names(made) or name in scope_names.import_aliases(source):
        return name in scope_names.import_aliases(source)
    binders = scope_names.binding_statements(source, name, source.tree)
    given = [b.value for b in binders if isinstance(b, ast.Assign)]
    return bool(given) and len(given) == len(binders) and all(_is_memory_value(source, v) for v in given)


def _is_memory_value(source: Source, value: ast.expr) -> bool:
    """Whether a value is a number, a list, or an array that NumPy creates in memory."""
    if isinstance(value, (ast.Constant, ast.List, ast.ListComp, ast.Dict, ast.DictComp)):
        return True
    if isinstance(value, ast.Tuple):
        return all(_is_memory_value(source, e) for e in value.elts)
    if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return True
    if not isinstance(value, ast.Call):
        return False
    whole = name_bindings.qualified_name(source, value.func)
    if whole.startswith("numpy."):
        return whole.rpartition(".")[2] not in ("load", "memmap", "open_memmap")
    return node_lookup.called_name(value) in ("len", "load_data", "list", "astype", "tolist") or (
        queries.shape_at(source, value) is not None
    )


# -- loops over single numbers


def _nested_element_loop(source: Source, maker: InputFunction) -> SlowPart | None:
    """Find nested loops over positions whose innermost body only computes with elements at these positions."""
    for statement in whole_pipelines.reached_statements(source, maker.function):
        for loop in (n for n in syntax_tree.walk(statement) if isinstance(n, ast.For)):
            if any(isinstance(n, (ast.For, ast.While)) for s in loop.body for n in syntax_tree.walk(s)):
                continue
            nest = [loop, *(o for o in scope_names.enclosing_loops(source, loop) if isinstance(o, ast.For))]
            known = [queries.loop_turns(source, o) for o in nest]
            small = None not in known and prod(t for t in known if t is not None) < sample_loops.MIN_NESTED_TURNS
            if len(nest) > 1 and not small and _counts_positions(loop) and _computes_at_positions(loop):
                says = "Python goes through single numbers of the input in this loop, under the interpreter lock"
                return SlowPart(edits.node_start(loop), edits.node_end(loop.iter), says)
    return None


def _counts_positions(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and node_lookup.called_name(loop.iter) in ("range", "ndindex", "ndenumerate")


def _computes_at_positions(loop: ast.For) -> bool:
    """Whether the body only computes with elements at positions given by the loop index."""
    counted = scope_names.bound_names(loop.target)
    found = False
    for node in (n for s in loop.body for n in syntax_tree.walk(s)):
        if isinstance(node, ast.Call) and node_lookup.called_name(node) not in SCALAR_FUNCTIONS:
            return False
        if isinstance(node, ast.Subscript):
            if any(isinstance(n, ast.Slice) for n in syntax_tree.walk(node.slice)):
                return False
            found |= bool(counted & {n.id for n in syntax_tree.walk(node.slice) if isinstance(n, ast.Name)})
        if isinstance(node, (ast.Yield, ast.Await, ast.Try)):
            return False
    return found


# -- work for one sample after the other


def _slow_loop(source: Source, maker: InputFunction) -> SlowPart | None:
    """Find slow loops over the parts of a sample, or a slow function that a map runs for each sample."""
    found = sample_loops.slow_sample_loop(source, maker.function, maker.each)
    if found is not None:
        head = (
            found.loop.iter if isinstance(found.loop, ast.For) else found.loop
        )  # a comprehension is reported as a whole
        return SlowPart(edits.node_start(found.loop), edits.node_end(head), found.says)
    several = sample_loops.numpy_calls_per_sample(source, maker.function) if maker.single and maker.each else 0
    if several < sample_loops.MIN_NUMPY_CALLS:
        return None
    says = f"Python calls NumPy {several} times for each sample, one sample after the other"
    return SlowPart(edits.node_start(maker.given), edits.node_end(maker.given), says)


def _sample_comprehension(source: Source, maker: InputFunction) -> SlowPart | None:
    """Find ``[transform(v) for v in batch]`` of a function that calls NumPy many times per sample."""
    if maker.single:
        return None
    for statement in whole_pipelines.reached_statements(source, maker.function):
        for node in syntax_tree.walk(statement):
            if not isinstance(node, ast.ListComp) or not isinstance(node.elt, ast.Call):
                continue
            made = node_lookup.function_named(source, node_lookup.called_name(node.elt), node)
            if made is None or isinstance(made, FUNCTION_NODES[1]):
                continue
            inner = whole_pipelines.calls_in(whole_pipelines.reached_statements(source, made))
            if any(node_lookup.called_name(c) in FILE_READERS for c in inner):
                continue
            ours = [c for c in inner if name_bindings.qualified_name(source, c.func).startswith("numpy.")]
            if len(ours) >= sample_loops.MIN_NUMPY_CALLS:
                says = f"{made.name}() calls NumPy {len(ours)} times for each sample, one sample after the other"
                return SlowPart(edits.node_start(node), edits.node_end(node), says)
    return None
