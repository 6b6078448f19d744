"""Python loops of a step over the rows of tensors, which ops that know of rows do at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.evaluators import literal_sizes
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.compute import mapped
from slowtrain.source.spots.compute import turns

# Of a number with what the turns before left: in whatever order, they give the same.
REDUCING = frozenset({"maximum", "minimum", "add", "logical_or", "logical_and"})
JOINING = frozenset({"stack", "concat", "concatenate", "add_n", "convert_to_tensor", "parallel_stack", "reduce_mean",
                     "reduce_sum", "mean", "sum"})  # fmt: skip
OPS = mapped.FUNCTIONS | frozenset(
    "gather boolean_mask reshape constant identity stop_gradient one_hot sort argsort argmax argmin softplus sum mean "
    "max min exp prod all any reduce_all reduce_any normalize ones_like zeros_like dot".split()
)
METHODS = frozenset({"append", "write"})
OF_FRAMEWORK = ("tensorflow.", "keras.ops.", "keras.backend.")


def each(source: Source) -> Iterator[tuple[ast.For | ast.ListComp, int]]:
    """Loops and comprehensions of a step over ``range`` that index tensors, and whose turns do not need each other."""
    stepping = "GradientTape" in source.text or "def call(" in source.text
    if not stepping or "range(" not in source.text or not name_bindings.may_name(source, *OF_FRAMEWORK):
        return
    for loop in call_index.nodes_of_kind(source, ast.For):
        if isinstance(loop, ast.For) and not any(isinstance(s, ast.For) for s in loop.body) and _apart(source, loop):
            yield from _many(source, loop, loop)
    for call in call_index.index_of(source).called(*sorted(JOINING)):
        made = call.args[0] if call.args else None
        if isinstance(made, ast.ListComp) and len(made.generators) == 1 and _listed(source, made):
            yield from _many(source, made, made.generators[0])


def _many(
    source: Source, found: ast.For | ast.ListComp, loop: ast.For | ast.comprehension
) -> Iterator[tuple[ast.For | ast.ListComp, int]]:
    count = literal_sizes.loop_turns(source, loop)
    if count is not None and count >= turns.PARTS and turns.in_step(source, found):
        yield found, count


def _over_range(loop: ast.For | ast.comprehension) -> str:
    """The number that a loop counts; "" where it does not."""
    over = loop.iter
    counts = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"
    return loop.target.id if counts and isinstance(loop.target, ast.Name) else ""


def _apart(source: Source, loop: ast.For) -> bool:
    """Whether a loop fills lists, or adds up, and takes nothing else from one turn into the next."""
    name = _over_range(loop)
    if not name or loop.orelse or not _rows(source, loop, name):
        return False
    lists: set[str] = set()
    given: set[str] = {name}
    sums: set[str] = set()
    reduced = {name for one in loop.body if (name := _reduced(one))}
    own = scope_names.bound_names(loop.body) - reduced
    for one in loop.body:
        if _reduced(one):
            if scope_names.read_names(one) & (own - given):
                return False
            sums |= reduced
        elif isinstance(one, ast.Assign) and all(isinstance(t, (ast.Name, ast.Tuple)) for t in one.targets):
            if scope_names.read_names(one.value) & (own - given):
                return False
            given |= scope_names.bound_names(one)
        elif isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add) and isinstance(one.target, ast.Name):
            sums.add(one.target.id)
        elif (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and node_lookup.called_name(one.value) == "append"
        ):
            lists.add(
                scope_names.dotted_name(one.value.func.value) if isinstance(one.value.func, ast.Attribute) else ""
            )
        else:
            return False
    loads = [
        n for one in loop.body for n in syntax_tree.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    ]
    kept = [n for n in loads if n.id in (lists | sums) - reduced]
    if len(kept) != sum(isinstance(s, ast.Expr) for s in loop.body):  # read for more than to append to them
        return False
    return bool(sums) or (bool(lists - {""}) and any(_joined(source, loop, one) for one in lists))


def _reduced(one: ast.stmt) -> str:
    """``far`` of ``far = tf.maximum(far, d)`` and ``far = tf.where(same, tf.maximum(far, d), far)``; "" of others."""
    target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
    call = one.value if isinstance(one, ast.Assign) else None
    if not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
        return ""
    name, branches = target.id, call.args[1:]
    if (
        node_lookup.called_name(call) == "where"
        and len(branches) == 2
        and name not in scope_names.read_names(call.args[0])
    ):
        inner = [n for n in branches if isinstance(n, ast.Call)]
        left = [n for n in branches if isinstance(n, ast.Name) and n.id == name]
        call = inner[0] if len(inner) == len(left) == 1 else call
    whole = [a for a in call.args if isinstance(a, ast.Name) and a.id == name]
    used = [n for n in syntax_tree.walk(call) if isinstance(n, ast.Name) and n.id == name]
    return name if node_lookup.called_name(call) in REDUCING and len(whole) == len(used) == 1 else ""


def _joined(source: Source, loop: ast.For, name: str) -> bool:
    """Whether what a list got becomes one tensor after the loop."""
    function = node_lookup.enclosing_function(source, loop)
    calls = (n for n in syntax_tree.walk(function) if isinstance(n, ast.Call)) if function is not None else ()
    return any(
        call.args and scope_names.dotted_name(call.args[0]) == name and node_lookup.called_name(call) in JOINING
        for call in calls
        if name_bindings.qualified_name(source, call.func).startswith(OF_FRAMEWORK)
    )


def _listed(source: Source, made: ast.ListComp) -> bool:
    """``tf.stack([distance(x[i]) for i in range(n)])``."""
    name = _over_range(made.generators[0])
    holder = node_lookup.parents_of(source).get(made)
    joined = isinstance(holder, ast.Call) and made in holder.args and node_lookup.called_name(holder) in JOINING
    whole = name_bindings.qualified_name(source, holder.func) if isinstance(holder, ast.Call) else ""
    if not name or made.generators[0].ifs or not joined or not whole.startswith(OF_FRAMEWORK):
        return False
    return _rows(source, made, name)


def _rows(source: Source, loop: ast.For | ast.ListComp, name: str) -> bool:
    """Whether the body indexes tensors by the number and otherwise calls nothing but ops that know of rows."""
    body = [n for one in (loop.body if isinstance(loop, ast.For) else [loop.elt]) for n in syntax_tree.walk(one)]
    places = [n for n in body if isinstance(n, ast.Subscript) and name in scope_names.read_names(n.slice)]
    if not places or not all(_tensor(source, n) for n in places):
        return False
    inside = {id(m) for n in places for m in syntax_tree.walk(n.slice)}
    alone = [n for n in body if isinstance(n, ast.Name) and n.id == name and id(n) not in inside]
    calls = [n for n in body if isinstance(n, ast.Call)]
    ops = [c for c in calls if node_lookup.called_name(c) not in METHODS]
    plain = all(
        name_bindings.qualified_name(source, c.func).startswith(OF_FRAMEWORK) and node_lookup.called_name(c) in OPS
        for c in ops
    )
    return plain and bool(ops) and not alone


def _tensor(source: Source, place: ast.Subscript) -> bool:
    """Whether what is indexed is no list of the script's: neither called, nor made as one, nor kept in an object."""
    above = node_lookup.parents_of(source)
    holder = above.get(place)
    if isinstance(holder, ast.Call) and holder.func is place:
        return False
    base = place.value
    if isinstance(base, ast.Attribute) and class_members.is_self_attribute(base):
        return False
    value = name_bindings.single_assignment(source, base) if isinstance(base, ast.Name) else None
    listed = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Tuple)
    return isinstance(base, ast.Name) and not isinstance(value, listed) and not _split(value)


def _split(value: ast.expr | None) -> bool:
    """``tf.split`` and ``tf.unstack`` give lists."""
    return isinstance(value, ast.Call) and node_lookup.called_name(value) in (
        "split",
        "unstack",
        "list",
        "zip",
        "get_weights",
    )
