"""Gradients, ops, arrays and tensors that a loop of training steps keeps from every iteration.

Lists of losses are not reported, because these are scalars: reading them at the end of an epoch spares each
step a wait. Nor are lists that the script reads as a whole later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from slowtrain.script.interpreter.domain import shape_rules
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

JOINING_FUNCTIONS = frozenset({"concatenate", "concat", "vstack", "hstack"})
ELEMENTWISE_FUNCTIONS = frozenset(
    {"square", "abs", "sqrt", "exp", "cast", "float32", "stop_gradient", "identity", "sign"}
)
# Their results are as large as their arguments.
SIZE_KEEPING_FUNCTIONS = frozenset(
    {"stack", "concat", "concatenate", "numpy", "identity", "stop_gradient", "cast", "copy", "array"}
)
MAX_LIST_BYTES = 2e9  # a list that is kept on purpose is smaller
REDUCING_PREFIXES = ("reduce_", "mean", "sum")
SHORTENING_METHODS = frozenset({"clear", "pop", "popleft", "remove"})
BRANCHING_NODES = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match)
ASSIGNING_METHODS = frozenset({"assign", "assign_add", "assign_sub"})


class _Block(Struct, frozen=True):
    """Statements of every iteration, and the ``names`` of tensors of more than one number that the step returned."""

    statements: list[ast.stmt]
    names: frozenset[str]


def find_in_loop_statements(source: Source) -> Iterator[KeptPlace]:
    """Growing arrays and lists in the loop itself, and in functions that it calls in every iteration."""
    for steps in step_loops.step_loops_of(source):
        if queries.has_few_turns(source, steps.loop):
            continue
        for block in _statement_blocks(source, steps):
            for one in block.statements:
                grown = _growing_join(source, one)
                if grown is not None:
                    says = "each iteration copies all that the earlier ones kept, and adds to it"
                    yield KeptPlace(grown, says, "keep only the last ones: a slice, or a deque with maxlen")
                held_value = _growing_append(source, one, block.names)
                if held_value is not None:
                    says = "a tensor of each step stays in memory, and only the last ones are read"
                    yield KeptPlace(
                        held_value, says, "keep a number in place of each, or the last ones in a deque with maxlen"
                    )


def find_reached_appends(source: Source) -> Iterator[KeptPlace]:
    """Calls, in any function, that append a tensor or array of more than one number in every step."""
    seen: set[ast.expr] = set()
    for event in file_events(source) if ".append" in source.text and step_loops.step_events(source) else ():
        if event.name != ".append" or event.on is None or event.on.kind != "list" or event.on.name == "bounded":
            continue
        if event.on.born:
            continue
        loop = step_loops.step_loop_of(source, event)
        given = event.given.get("", 0)
        wide = any(
            one.kind in ("tensor", "array") and one.shape and 1 not in one.shape for one in given.nested_values(2)
        )
        func = event.node.func if isinstance(event.node, ast.Call) else None
        owner = func.value if isinstance(func, ast.Attribute) else None
        if loop is None or not wide or event.node in seen:
            continue
        total = _total_bytes(event)
        if _is_only_appended_to(source, owner):
            says = "a tensor of each step stays in memory, and only the last ones are read"
            cure = "keep a number in place of each, or the last ones in a deque with maxlen"
        elif total >= MAX_LIST_BYTES:
            says = f"a tensor of each step stays in memory: at least {total / 1e9:,.1f} GB of them at the end"
            cure = "keep only what is needed of it in each step, as a metric does"
        else:
            continue
        seen.add(event.node)
        yield KeptPlace(event.node, says, cure)


def _total_bytes(event: Event) -> int:
    """Bytes of all that the list gets, by the sizes and iterations that the text shows."""
    iterations = prod(loop.turns or 1 for loop in event.regular_loops(1))
    parts = (one for one in event.given.get("", 0).nested_values(2) if one.kind in ("tensor", "array") and one.shape)
    return iterations * sum(
        prod(n or 1 for n in one.shape or ()) * shape_rules.DTYPE_BYTES.get(one.dtype, 1) for one in parts
    )


def _is_only_appended_to(source: Source, owner: ast.expr | None) -> bool:
    """Whether a list is bound in one place, and everything that reads it appends, counts, or takes its end."""
    if isinstance(owner, ast.Name):
        names = call_index.nodes_of_kind(source, ast.Name)
        stored = [n for n in names if n.id == owner.id and not isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
        return len(stored) == 1 and _only_end_is_read(source, owner.id, ast.Name)
    if not isinstance(owner, ast.Attribute):
        return False
    return len(class_members.attribute_stores(source, owner.attr)) == 1 and _only_end_is_read(
        source, owner.attr, ast.Attribute
    )


def _statement_blocks(source: Source, steps: step_loops.StepLoop) -> Iterator[_Block]:
    tensors = _reduced_outputs(source, steps) if steps.graph else frozenset[str]()
    yield _Block(list(step_loops.statements_per_turn(steps.loop)), tensors)
    for call, function in step_loops.functions_per_turn(source, steps):
        given = {
            name: call_arguments.argument_in(function, call, name) for name in scope_names.parameter_names(function)
        }
        names = frozenset(
            n for n, value in given.items() if value is not None and _contains_tensor(source, value, tensors)
        )
        yield _Block(list(step_loops.statements_per_turn(function)), names)


def _contains_tensor(source: Source, value: ast.expr, tensors: frozenset[str]) -> bool:
    """Whether it is one of ``tensors``, or made of some of them: ``tf.stack([z, x])``."""
    if isinstance(value, ast.Name):
        return value.id in tensors
    if isinstance(value, (ast.Tuple, ast.List)):
        return any(_contains_tensor(source, e, tensors) for e in value.elts)
    if isinstance(value, ast.Dict):
        return any(_contains_tensor(source, e, tensors) for e in value.values)
    if isinstance(value, ast.Call) and node_lookup.called_name(value) in SIZE_KEEPING_FUNCTIONS:
        given = [*value.args[:1], *([value.func.value] if isinstance(value.func, ast.Attribute) else [])]
        return any(_contains_tensor(source, e, tensors) for e in given)
    return False


def _reduced_outputs(source: Source, steps: step_loops.StepLoop) -> frozenset[str]:
    """Names that the step's results get, of values that the step itself reduces: more than one number."""
    function = node_lookup.function_named(source, node_lookup.called_name(steps.call))
    if function is None:
        return frozenset()
    calls = (n for n in syntax_tree.walk(function) if isinstance(n, ast.Call))
    reduced = {
        _elementwise_operand(c.args[0])
        for c in calls
        if c.args and node_lookup.called_name(c).startswith(REDUCING_PREFIXES)
    }
    return frozenset(outer for inner, outer in _returned_names(source, steps) if inner in reduced)


def _elementwise_operand(node: ast.expr) -> str:
    """The name below elementwise operations: ``z`` of ``tf.square(z)`` and of ``z ** 2``."""
    while isinstance(node, ast.Call) and len(node.args) == 1 and node_lookup.called_name(node) in ELEMENTWISE_FUNCTIONS:
        node = node.args[0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
        node = node.left
    return scope_names.dotted_name(node)


def _growing_join(source: Source, one: ast.stmt) -> ast.expr | None:
    """The call of ``bank = concat([bank, keys])``, if the name or attribute is bound nowhere else in a loop."""
    if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not isinstance(one.value, ast.Call):
        return None
    call, target = one.value, one.targets[0]
    whole = name_bindings.qualified_name(source, call.func).startswith(("numpy.", "tensorflow.", "keras."))
    parts = call.args[0] if call.args else None
    if (
        not whole
        or node_lookup.called_name(call) not in JOINING_FUNCTIONS
        or not isinstance(parts, (ast.List, ast.Tuple))
    ):
        return None
    name = scope_names.dotted_name(target)
    others = [p for p in parts.elts if scope_names.dotted_name(p) != name]
    plain = all(isinstance(p, (ast.Name, ast.Attribute, ast.Call)) for p in others)
    if not name or len(others) != len(parts.elts) - 1 or not others or not plain:
        return None
    if isinstance(target, ast.Attribute):
        again = [n for n in class_members.attribute_stores(source, target.attr) if n is not target]
        return call if again and all(_is_in_constructor(source, n) for n in again) else None
    where = name_bindings.binding_scope(source, target, name) if isinstance(target, ast.Name) else None
    others_bound = [n for n in name_bindings.bindings_of(where, name) if n is not target] if where is not None else []
    first = bool(others_bound) and all(
        isinstance(n, ast.Name) and not scope_names.enclosing_loops(source, n) for n in others_bound
    )
    return call if first else None


def _is_in_constructor(source: Source, node: ast.AST) -> bool:
    function = node_lookup.enclosing_function(source, node)
    return function is not None and function.name == "__init__"


def _growing_append(source: Source, one: ast.stmt, names: frozenset[str]) -> ast.expr | None:
    """The call ``self.seen.append(z)``, if the file only adds to the list, and reads no more than its end."""
    call = one.value if isinstance(one, ast.Expr) else None
    if not names or not isinstance(call, ast.Call) or node_lookup.called_name(call) != "append" or len(call.args) != 1:
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not _contains_tensor(source, call.args[0], names):
        return None
    if isinstance(owner, ast.Name):
        return call if _is_never_shortened(source, call) and _only_end_is_read(source, owner.id, ast.Name) else None
    if not isinstance(owner, ast.Attribute) or not class_members.is_self_attribute(owner):
        return None
    stored = class_members.attribute_stores(source, owner.attr)
    made = node_lookup.parents_of(source).get(stored[0]) if len(stored) == 1 else None
    listed = isinstance(made, (ast.Assign, ast.AnnAssign)) and _is_empty_list(made.value)
    once = listed and _is_in_constructor(source, stored[0])
    return call if once and _only_end_is_read(source, owner.attr, ast.Attribute) else None


def _is_empty_list(made: ast.expr | None) -> bool:
    """Whether it is ``[]``, ``list()``, or a deque without a limit."""
    if isinstance(made, ast.Call):
        return (
            scope_names.dotted_name(made.func).rpartition(".")[2] in ("list", "deque")
            and not made.args
            and not made.keywords
        )
    return isinstance(made, ast.List)


def _only_end_is_read(source: Source, name: str, kind: type[ast.Name] | type[ast.Attribute]) -> bool:
    """Whether everything that reads the list appends to it, counts it, or takes its end."""
    above = node_lookup.parents_of(source)
    for node in call_index.nodes_of_kind(source, kind):
        assert isinstance(node, (ast.Name, ast.Attribute))
        if (node.id if isinstance(node, ast.Name) else node.attr) != name or not isinstance(node.ctx, ast.Load):
            continue
        holder = above.get(node)
        added = isinstance(holder, ast.Attribute) and holder.attr == "append"
        counted = isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) == "len"
        if isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) in ("list", "tuple"):
            node, holder = holder, above.get(holder)  # list(seen)[-9:]
        end = isinstance(holder, ast.Subscript) and holder.value is node and isinstance(holder.ctx, ast.Load)
        if not (added or counted or (end and _is_end_slice(getattr(holder, "slice", None)))):
            return False
    return True


def _is_end_slice(at: ast.expr | None) -> bool:
    """Whether it is a slice, or an index from the end: ``[-9:]``, ``[-1]``."""
    return isinstance(at, ast.Slice) or (isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub))


class KeptPlace(Struct, frozen=True):
    node: ast.expr
    says: str
    cure: str


def find_kept_gradients(source: Source) -> Iterator[KeptPlace]:
    """``history.append(grads)`` in every iteration, if ``grads`` are all gradients of the step."""
    for steps in step_loops.step_loops_of(source):
        names = (
            _gradient_names(source, steps) if steps.graph and not queries.has_few_turns(source, steps.loop) else set()
        )
        for one in step_loops.statements_per_turn(steps.loop) if names else ():
            call = one.value if isinstance(one, ast.Expr) else None
            if not isinstance(call, ast.Call) or node_lookup.called_name(call) != "append" or len(call.args) != 1:
                continue
            given = call.args[0]
            inside = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
            if any(isinstance(v, ast.Name) and v.id in names for v in inside) and _is_never_shortened(source, call):
                says = "each step's gradients stay in memory: as many bytes as the model for each step"
                yield KeptPlace(call, says, "keep a number of them, such as tf.linalg.global_norm(grads)")


def find_added_ops(source: Source) -> Iterator[KeptPlace]:
    """``session.run(tf.add(a, b))`` in a loop: every iteration adds an op to the graph."""
    if "Session(" not in source.text:
        return
    for call in call_index.index_of(source).calls_of("run"):
        loops = scope_names.enclosing_loops(source, call)
        if not loops or queries.has_few_turns(source, loops[0]) or _makes_own_graph(loops[-1]):
            continue
        given = [*call.args[:1], *_values_run_in_session(loops[0], call)]
        library = bool(name_bindings.qualified_name(source, call.func))  # subprocess.run
        nodes = [node for one in given for node in syntax_tree.walk(one)]
        if any(_calls_op(source, n) for n in nodes) or (
            not library and any(_calls_function_with_ops(source, n) for n in nodes)
        ):
            says = "each iteration of this loop adds ops to the graph, which keeps them"
            yield KeptPlace(call, says, "make the op once before the loop, and run it in the loop")


def _values_run_in_session(loop: ast.AST, run: ast.Call) -> Iterator[ast.expr]:
    """Values that the loop binds to the names that it passes to ``session.run``."""
    asked = {n.id for given in run.args[:1] for n in syntax_tree.walk(given) if isinstance(n, ast.Name)}
    for one in getattr(loop, "body", ()):
        if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id in asked for t in one.targets):
            yield one.value


def _gradient_names(source: Source, steps: step_loops.StepLoop) -> set[str]:
    """Names that the loop binds to all gradients that its step returns."""
    function = node_lookup.function_named(source, node_lookup.called_name(steps.call))
    if function is None:
        return set()
    taken = [n for n in syntax_tree.walk(function) if isinstance(n, ast.Assign) and _is_gradient(n.value)]
    inner = {t.id for n in taken for t in n.targets if isinstance(t, ast.Name)}
    return {outer for name, outer in _returned_names(source, steps) if name in inner}


def _returned_names(source: Source, steps: step_loops.StepLoop) -> Iterator[tuple[str, str]]:
    """Names that a step's function returns, each with the name that the loop binds to it."""
    function = node_lookup.function_named(source, node_lookup.called_name(steps.call))
    statement = node_lookup.enclosing_statement(source, steps.call)
    if function is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    back = [
        n.value for n in scope_names.nodes_in_scope(function.body) if isinstance(n, ast.Return) and n.value is not None
    ]
    target = statement.targets[0]
    if len(back) != 1:
        return
    pairs: list[tuple[ast.expr, ast.expr]] = [(back[0], target)]
    if isinstance(back[0], ast.Tuple) and isinstance(target, ast.Tuple) and len(back[0].elts) == len(target.elts):
        pairs = list(zip(back[0].elts, target.elts, strict=True))
    for value, name in pairs:
        if isinstance(value, ast.Name) and isinstance(name, ast.Name):
            yield value.id, name.id


def _is_gradient(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and node_lookup.called_name(node) == "gradient"


def _is_never_shortened(source: Source, append: ast.Call) -> bool:
    """Whether the list is made once, outside every loop, and nothing shortens it."""
    value = append.func.value if isinstance(append.func, ast.Attribute) else None
    if not isinstance(value, ast.Name):
        return False
    made = name_bindings.single_assignment(source, value)
    if not isinstance(made, ast.List) or scope_names.enclosing_loops(source, made):
        return False
    shortened = call_index.index_of(source).calls_of(*SHORTENING_METHODS)
    if any(isinstance(c.func, ast.Attribute) and scope_names.is_name(c.func.value, value.id) for c in shortened):
        return False
    return not any(
        scope_names.is_name(t, value.id)
        for n in call_index.nodes_of_kind(source, ast.Delete)
        for d in n.targets  # type: ignore[attr-defined]
        for t in syntax_tree.walk(d)
    )


def _calls_op(source: Source, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if name_bindings.qualified_name(source, node.func).startswith("tensorflow."):
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in ASSIGNING_METHODS


def _calls_function_with_ops(source: Source, node: ast.AST) -> bool:
    """Whether the node calls a function of the file that makes an op each time, without a branch or a cache."""
    made = queries.called_function(source, node) if isinstance(node, ast.Call) else None
    if made is None or made.decorator_list or _makes_own_graph(made):
        return False
    inside = list(scope_names.nodes_in_scope(made.body))
    return not any(isinstance(n, BRANCHING_NODES) for n in inside) and any(_calls_op(source, n) for n in inside)


def _makes_own_graph(loop: ast.AST) -> bool:
    """Whether each iteration has a graph of its own, which is freed with it."""
    named = {n.attr for n in syntax_tree.walk(loop) if isinstance(n, ast.Attribute)}
    return bool(named & {"as_default", "Graph", "reset_default_graph"})
