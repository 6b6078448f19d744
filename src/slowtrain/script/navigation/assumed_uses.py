"""How code is used that no given file calls, as far as its own text proves it.

A sequence of Keras and an endless generator of batches exist to feed ``fit``. A class that acts on one state and learns
by one update at a time is called in a loop of steps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names, single_rows
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

SEQUENCE_CLASSES = frozenset({"PyDataset", "Sequence"})
# Code that makes input in several threads or processes has one of these words, or "workers" in one.
PARALLEL_WORDS = frozenset(
    "use_multiprocessing ThreadPoolExecutor ProcessPoolExecutor ThreadPool Pool Parallel OrderedEnqueuer "
    "GeneratorEnqueuer".split()
)
SESSION_WORDS = frozenset({"Session", "placeholder"})  # of TensorFlow 1, whose methods add to a graph
MODEL_MAKERS = ("Sequential", "Model", "load_model", "compile")
_ENDLESS = re.compile(r"while(?<!\wwhile)\s*\(?\s*(?:True|1)\b")
Method = ast.FunctionDef | ast.AsyncFunctionDef
ReachedCall = tuple[ast.Call, bool]  # a call that a method makes, and whether a loop is around it


def may_feed_fit(source: Source) -> bool:
    """Whether the file may define Python input for the ``fit`` of another file, without workers; by the text alone."""
    words = source.words
    if not uses_no_workers(source) or "keras" not in source.text:
        return False
    sequence = "__getitem__" in words and not words.isdisjoint(SEQUENCE_CLASSES)
    return sequence or ("yield" in words and _ENDLESS.search(source.text) is not None)


def uses_no_workers(source: Source) -> bool:
    """Whether nothing in the file may give ``fit`` workers, or make input in several threads."""
    return "workers" not in source.text and source.words.isdisjoint(PARALLEL_WORDS)


def yields_batches_endlessly(function: ast.AST | None) -> bool:
    """Whether it is ``while True: ... yield inputs, targets``, which only training iterates."""
    body = scope_names.scope_body(function) if isinstance(function, FUNCTION_NODES) else []
    for loop in (n for n in scope_names.nodes_in_scope(body) if isinstance(n, ast.While)):
        endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        yields = [n.value for n in scope_names.nodes_in_scope(loop.body) if isinstance(n, ast.Yield)]
        if endless and any(isinstance(one, ast.Tuple) and len(one.elts) > 1 for one in yields):
            return True
    return False


def gives_inputs_and_targets(source: Source, kind: ast.ClassDef, method: ast.AST | None) -> bool:
    """Whether a method returns ``inputs, targets``, also through other methods of its class, as training needs it."""
    methods = {one.name: one for one in kind.body if isinstance(one, FUNCTION_NODES)}
    return isinstance(method, FUNCTION_NODES) and _returns_pair(source, methods, method, frozenset())


def _returns_pair(source: Source, methods: dict[str, Method], method: Method, seen: frozenset[str]) -> bool:
    nodes = scope_names.nodes_in_scope(method.body)
    for value in (n.value for n in nodes if isinstance(n, ast.Return)):
        given = name_bindings.latest_assignment(source, value) or value if isinstance(value, ast.Name) else value
        if isinstance(given, ast.Tuple) and len(given.elts) > 1:
            return True
        name = _self_call_name(given) if isinstance(given, ast.Call) else ""
        if name in methods and name not in seen and _returns_pair(source, methods, methods[name], seen | {name}):
            return True
    return False


def step_methods(source: Source, kind: ast.ClassDef) -> set[str]:
    """The methods of an agent that a loop of steps calls: those that act on one state, and those that learn.

    Empty if the class does not have both. A method that another method of the class calls is part of that one.
    """
    if not source.words.isdisjoint(SESSION_WORDS) or not call_index.index_of(source).calls_of(*MODEL_MAKERS):
        return set()
    methods = {one.name: one for one in kind.body if isinstance(one, FUNCTION_NODES)}
    called = {name for one in methods.values() for name in _called_methods(one) if name != one.name}
    own = {name: one for name, one in methods.items() if name not in called and not name.startswith("__")}
    reached = {name: list(_reached_calls(source, methods, one)) for name, one in own.items()}
    learning = {name for name, calls in reached.items() if _learns_by_one_update(source, calls)}
    by_step = any(_learns_of_steps(source, reached[name]) for name in learning)
    acts_by = {"predict", *_self_attributes(kind)} - set(methods) if by_step else {"predict"}
    acting = {name for name, calls in reached.items() if learning and _acts_on_one_state(source, calls, acts_by)}
    return acting | learning if acting else set()


def _acts_on_one_state(source: Source, calls: list[ReachedCall], acts_by: set[str]) -> bool:
    """Whether a model gets one row, through one of the methods or attributes ``acts_by``."""
    return any(
        not looped and node_lookup.called_name(call) in acts_by and single_rows.takes_one_row(source, call)
        for call, looped in calls
        if isinstance(call.func, ast.Attribute)
    )


def _learns_by_one_update(source: Source, calls: list[ReachedCall]) -> bool:
    """Whether a call of a method updates the weights once, or once for each of a few remembered samples."""
    names = {node_lookup.called_name(call) for call, _ in calls}
    for call, looped in calls:
        match node_lookup.called_name(call):
            case "train_on_batch" if not looped or single_rows.takes_one_row(source, call):
                return True
            case "apply_gradients" | "minimize" if not looped and "GradientTape" in names:
                return True
            case "fit" if _is_one_epoch(call, remembers=_draws_rows(calls)):
                if not looped or single_rows.takes_one_row(source, call):
                    return True
    return False


def _is_one_epoch(fit: ast.Call, *, remembers: bool) -> bool:
    """Whether ``fit`` trains for one epoch: as written, or by default on rows that are drawn from a memory."""
    epochs = node_lookup.argument_value(fit, "epochs", 3)
    return remembers if epochs is None else isinstance(epochs, ast.Constant) and epochs.value == 1


def _learns_of_steps(source: Source, calls: list[ReachedCall]) -> bool:
    """Whether it learns from rows of a memory, or from a single step."""
    return _draws_rows(calls) or any(single_rows.makes_one_row(source, call) for call, looped in calls if not looped)


def _draws_rows(calls: list[ReachedCall]) -> bool:
    """Whether it draws rows from a memory: ``random.sample``, ``self.memory.sample_buffer``."""
    names = (node_lookup.called_name(call) for call, _ in calls)
    return any("sample" in name or name == "choice" for name in names)


def _self_attributes(kind: ast.ClassDef) -> set[str]:
    """The attributes of ``self`` that the class sets."""
    found = (n for n in syntax_tree.walk(kind) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {one.attr for one in found if class_members.is_self_attribute(one)}


def _reached_calls(
    source: Source, methods: dict[str, Method], method: Method, looped: bool = False, seen: frozenset[str] = frozenset()
) -> Iterator[ReachedCall]:
    """The calls that a method makes, also through other methods of its class, and whether a loop is around them."""
    for call in syntax_tree.nodes_inside(method.body, ast.Call):
        inside = looped or any(True for _ in scope_names.loops_and_comprehensions(source, call))
        yield call, inside
        name = _self_call_name(call)
        if name in methods and name not in seen:
            yield from _reached_calls(source, methods, methods[name], inside, seen | {name})


def _self_call_name(call: ast.Call) -> str:
    """``learn`` of ``self.learn(x)``; "" for any other call."""
    func = call.func
    own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
    return func.attr if own and isinstance(func, ast.Attribute) else ""


def _called_methods(method: Method) -> set[str]:
    return {_self_call_name(call) for call in syntax_tree.nodes_inside(method.body, ast.Call)}
