"""Edits of containers that get longer with every step: a limit to their length, or smaller elements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from slowtrain.causes.memory.host_leak import HostGrowth
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals import memory_growth
from slowtrain.trace.signals.growth_suspects import GrowingContainer, KeptObjects
from slowtrain.trace.signals.input_feed import free_host_bytes

# Functions that take a deque in place of a list: they count, iterate from the front, or make an array of it.
DEQUE_TAKING_FUNCTIONS = frozenset(
    "len iter enumerate zip list tuple set sorted reversed min max sum any all sample choice array asarray mean median "
    "std bool map filter".split()
)
DEQUE_METHODS = frozenset({"append", "extend", "clear", "count", "remove"})
# They return one number, or a few, for a tensor of any size.
REDUCING_FUNCTIONS = frozenset(
    "global_norm norm reduce_mean reduce_sum reduce_max reduce_min reduce_std reduce_variance mean sum max min std "
    "var".split()
)
EMPTY_VALUES = {"list": ("[]", "list()"), "dict": ("{}", "dict()")}
MAX_CONTAINER_SHARE = 0.25  # of the memory that was free throughout: the room that a limited container may take


class NamedContainer(Struct, frozen=True):
    """A container by its name. ``attribute``: it belongs to an object. ``kind``: list or dict."""

    named: str
    attribute: bool
    kind: str

    def is_at(self, node: ast.AST) -> bool:
        """Whether an expression is the container."""
        if self.attribute:
            return isinstance(node, ast.Attribute) and node.attr == self.named
        return isinstance(node, ast.Name) and node.id == self.named


def limit_length(source: Source, container: NamedContainer, most: int) -> list[Edit]:
    """Limits the container to the ``most`` newest elements; no edits if a use needs it to be a list."""
    made = _empty_value(source, container)
    uses = _reads_of_container(source, container)
    if made is None or most < 1 or not uses:
        return []
    returned = container.kind == "dict"
    if not all(
        _works_when_limited(source, container, n) or (returned and _is_returned_by_name(source, container, n))
        for n in uses
    ):
        return []
    if container.kind == "list":
        name, also = edits.ensure_import(source, "collections", "collections")
        return [*also, edits.replace_node(source, made, f"{name}.deque(maxlen={most})")]
    added = [s for n in uses if (s := _item_assignment(source, n)) is not None]
    if len(added) != 1:
        return []
    item = added[0].targets[0]
    text = edits.node_text(source, item.value) if isinstance(item, ast.Subscript) else ""
    unit = edits.indentation_unit(source)
    return [edits.insert_after(source, added[0], f"if len({text}) > {most}:\n{unit}del {text}[next(iter({text}))]")]


def is_read_in_training(source: Source, container: NamedContainer) -> bool:
    """Whether the script reads the container while it trains: then a limit changes the training."""
    for node in _reads_of_container(source, container):
        if not _adds_element(source, container, node):
            holder = node_lookup.parents_of(source).get(node)
            if isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) == "len":
                continue
            inside = node_lookup.enclosing_function(source, node) is not None and not _is_returned_by_name(
                source, container, node
            )
            if scope_names.enclosing_loops(source, node) or inside:
                return True
    return False


def reduce_elements(source: Source, container: NamedContainer) -> list[Edit]:
    """``kept.append(norm(grads))`` in place of ``kept.append(grads)``, if only ``norm(g) for g in kept`` is read."""
    made = _empty_value(source, container)
    uses = _reads_of_container(source, container)
    adding = [c for n in uses if (c := _append_call(source, n)) is not None]
    rest = [n for n in uses if _append_call(source, n) is None]
    if made is None or len(adding) != 1 or len(rest) != 1 or not isinstance(adding[0].args[0], ast.Name):
        return []
    found = _reducing_comprehension(source, rest[0])
    if found is None:
        return []
    item, calls = found
    given, call = adding[0].args[0], calls[0]
    others = scope_names.read_names(call) - {item}
    if any(not name_bindings.qualified_name(source, ast.Name(n, ast.Load())) for n in others):
        return []
    text = _reducing_text(source, call, item, edits.node_text(source, given))
    return [edits.replace_node(source, given, text), *(edits.replace_node(source, c, item) for c in calls)]


def _reducing_text(source: Source, call: ast.Call, item: str, given: str) -> str:
    first = call.args[0]
    rest = [edits.node_text(source, a) for a in call.args[1:]]
    rest += [f"{k.arg}={edits.node_text(source, k.value)}" for k in call.keywords]
    assert isinstance(first, ast.Name)
    assert first.id == item
    return f"{edits.node_text(source, call.func)}({', '.join([given, *rest])})"


def _reducing_comprehension(source: Source, node: ast.AST) -> tuple[str, list[ast.Call]] | None:
    """The variable of the one comprehension over the container, and the calls that reduce it."""
    above = node_lookup.parents_of(source)
    over = above.get(node)
    over = (
        over if isinstance(over, ast.Subscript) and over.value is node and isinstance(over.slice, ast.Slice) else node
    )
    part = above.get(over)
    whole = above.get(part) if isinstance(part, ast.comprehension) else None
    if not isinstance(part, ast.comprehension) or not isinstance(whole, (ast.ListComp, ast.GeneratorExp)):
        return None
    if part.iter is not over or part.ifs or len(whole.generators) != 1 or not isinstance(part.target, ast.Name):
        return None
    item = part.target.id
    read = [n for n in syntax_tree.walk(whole.elt) if isinstance(n, ast.Name) and n.id == item]
    calls: list[ast.Call] = []
    for name in read:
        call = above.get(name)
        if (
            not isinstance(call, ast.Call)
            or call.args[:1] != [name]
            or node_lookup.called_name(call) not in REDUCING_FUNCTIONS
        ):
            return None
        if not name_bindings.qualified_name(source, call.func).startswith(("tensorflow.", "keras.ops.")):
            return None  # NumPy would wait for each value
        calls.append(call)
    same = {ast.dump(c) for c in calls}
    return (item, calls) if len(same) == 1 else None


def _reads_of_container(source: Source, container: NamedContainer) -> list[ast.Name | ast.Attribute]:
    """Every place that reads the container."""
    found = (
        n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.Name, ast.Attribute)) and container.is_at(n)
    )
    return [n for n in found if isinstance(n.ctx, ast.Load)]


def _empty_value(source: Source, container: NamedContainer) -> ast.expr | None:
    """The empty value that it is bound to; None if the file binds it to anything else."""
    above = node_lookup.parents_of(source)
    made: list[ast.expr] = []
    for node in syntax_tree.walk(source.tree):
        is_at = isinstance(node, (ast.Name, ast.Attribute)) and container.is_at(node)
        if not isinstance(node, (ast.Name, ast.Attribute)) or not is_at or isinstance(node.ctx, ast.Load):
            continue
        holder = above.get(node)
        if isinstance(holder, ast.Tuple) and isinstance(node, ast.Name) and container.kind == "dict":
            continue  # the result of a function, which _is_returned_by_name checks
        value = holder.value if isinstance(holder, (ast.Assign, ast.AnnAssign)) else None
        alone = not isinstance(holder, ast.Assign) or len(holder.targets) == 1
        if value is None or not alone or ast.unparse(value) not in EMPTY_VALUES.get(container.kind, ()):
            return None
        made.append(value)
    given = any(isinstance(n, ast.arg) and n.arg == container.named for n in call_index.nodes_of_kind(source, ast.arg))
    return made[0] if len(made) == 1 and (container.attribute or not given) else None


def _works_when_limited(source: Source, container: NamedContainer, node: ast.AST) -> bool:
    """Whether a use works with the limited container as well."""
    above = node_lookup.parents_of(source)
    holder = above.get(node)
    if isinstance(holder, (ast.For, ast.comprehension)):
        return holder.iter is node
    if isinstance(holder, ast.Call) and node in holder.args:
        whole = name_bindings.qualified_name(source, holder.func)
        return node_lookup.called_name(holder) in DEQUE_TAKING_FUNCTIONS and not whole.startswith(
            ("tensorflow.", "json.", "pickle.")
        )
    if isinstance(holder, ast.Attribute) and isinstance(above.get(holder), ast.Call):
        call = above[holder]
        if container.kind == "dict":
            return holder.attr in ("values", "items", "keys")
        plain = isinstance(call, ast.Call) and not call.args and not call.keywords
        return holder.attr in DEQUE_METHODS or (holder.attr == "pop" and plain)
    if isinstance(holder, ast.Subscript) and holder.value is node:
        if container.kind == "dict":
            last = isinstance(holder.slice, ast.Call) and node_lookup.called_name(holder.slice) == "max"
            return _item_assignment(source, node) is not None or (last and isinstance(holder.ctx, ast.Load))
        return not isinstance(holder.slice, (ast.Slice, ast.Tuple)) and isinstance(holder.ctx, ast.Load)
    return isinstance(holder, (ast.If, ast.While, ast.BoolOp)) or (
        isinstance(holder, ast.UnaryOp) and isinstance(holder.op, ast.Not)
    )


def _item_assignment(source: Source, node: ast.AST) -> ast.Assign | None:
    """``kept[key] = value`` of which ``node`` is the container."""
    above = node_lookup.parents_of(source)
    item = above.get(node)
    one = above.get(item) if isinstance(item, ast.Subscript) and item.value is node else None
    return one if isinstance(one, ast.Assign) and one.targets == [item] else None


def _append_call(source: Source, node: ast.AST) -> ast.Call | None:
    above = node_lookup.parents_of(source)
    method = above.get(node)
    call = above.get(method) if isinstance(method, ast.Attribute) and method.attr == "append" else None
    return call if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords else None


def _adds_element(source: Source, container: NamedContainer, node: ast.AST) -> bool:
    return _append_call(source, node) is not None or (
        container.kind == "dict" and _item_assignment(source, node) is not None
    )


def _is_returned_by_name(source: Source, container: NamedContainer, node: ast.AST) -> bool:
    """Whether it is returned to callers that bind it to the same name, or ignore it."""
    above = node_lookup.parents_of(source)
    holder = above.get(node)
    place = [id(e) for e in holder.elts].index(id(node)) if isinstance(holder, ast.Tuple) else None
    back = above.get(holder) if place is not None and holder is not None else holder
    function = node_lookup.enclosing_function(source, node)
    if not isinstance(back, ast.Return) or function is None:
        return False
    return all(
        _is_bound_to_same_name(source, container, call, place)
        for call in call_index.index_of(source).calls_of(function.name)
    )


def _is_bound_to_same_name(source: Source, container: NamedContainer, call: ast.Call, place: int | None) -> bool:
    one = node_lookup.enclosing_statement(source, call)
    if isinstance(one, ast.Expr):
        return one.value is call
    if not isinstance(one, ast.Assign) or one.value is not call or len(one.targets) != 1:
        return False
    target: ast.expr = one.targets[0]
    if place is not None:
        if not isinstance(target, ast.Tuple) or len(target.elts) <= place:
            return False
        target = target.elts[place]
    return container.is_at(target)


def named_containers(source: Source, named: str, kind: str) -> Iterator[NamedContainer]:
    """The containers of that name in the file: an object's attribute, a variable, or both."""
    for attribute in (True, False):
        one = NamedContainer(named, attribute, kind)
        if any(one.is_at(n) for n in syntax_tree.walk(source.tree)):
            yield one


def find_cures(trace: Trace, finding: HostGrowth) -> Iterable[Prescription]:
    tensors = [one for one in finding.suspects if "Tensor" in one.element]
    if tensors:
        yield _smaller_elements_cure(trace, tensors[0])
    if finding.suspects:
        yield from _container_cures(trace, finding)
    elif finding.traces_per_step and finding.kept is None:
        yield Prescription("advice", Effect.EXACT, "make functions and models once, outside the loop")
        yield Prescription("advice", Effect.EXACT, "call keras.backend.clear_session() between models")
    else:
        yield _search_advice(finding.kept)


def _container_cures(trace: Trace, finding: HostGrowth) -> Iterable[Prescription]:
    first = finding.suspects[0]
    if first.array:
        says = f"keep the newest part of `{first.path}`, a slice of a fixed length, or write out what is not read"
        yield Prescription("advice", Effect.EXACT, says)
    elif first.kind == "graph":
        says = "make ops once, before the loop, and feed what changes; graph.finalize() fails at the line that adds"
        yield Prescription("advice", Effect.EXACT, says)
    elif first.at_least:
        yield from _model_cures(first)
    else:
        yield _limit_cure(trace, finding)


def _smaller_elements_cure(trace: Trace, container: GrowingContainer) -> Prescription:
    made = _container_edits(trace, container, reduce_elements)
    says = "keep numbers, not tensors: float(loss), or value.numpy() at most"
    if made:
        says = f"keep in `{container.path}` only the part that is read later"
    return Prescription("edit" if made else "advice", Effect.EXACT, says, edits=made)


def _model_cures(container: GrowingContainer) -> Iterable[Prescription]:
    says = f"keep in `{container.path}` only what is read of each model later: its score, history.history, its weights "
    yield Prescription("advice", Effect.EXACT, says + "in a file")
    says = "call keras.backend.clear_session() in each iteration, once nothing holds the model"
    yield Prescription("advice", Effect.EXACT, says)


def _limit_cure(trace: Trace, finding: HostGrowth) -> Prescription:
    """A limit to what grows: as many elements as fit in a part of the memory that was free throughout."""
    container, free = finding.suspects[0], free_host_bytes(trace)
    size = container.element_bytes
    most = _rounded_down(MAX_CONTAINER_SHARE * free / size) if free and size else 0
    made = _container_edits(trace, container, lambda text, named: limit_length(text, named, most)) if most else ()
    if not made:
        names = ", ".join(f"`{one.path}`" for one in finding.suspects[:3])
        says = f"give {names} a limit (collections.deque(maxlen=…)), or write it out and clear it"
        return Prescription("advice", Effect.EXACT, says)
    steers = any(is_read_in_training(text, named) for text, named in _containers_in_text(trace, container))
    room = memory_growth.format_bytes(most * size)
    says = f"keep the last {most:,} of `{container.path}`, at most {room}, and forget older ones"
    return Prescription("edit", Effect.CHANGES_TRAINING if steers else Effect.EXACT, says, edits=made)


def _rounded_down(number: float) -> int:
    """Down to one digit: 106,123 becomes 100,000."""
    digits = len(str(int(number))) - 1
    return int(number) // 10**digits * 10**digits if number >= 1 else 0


def _containers_in_text(trace: Trace, container: GrowingContainer) -> list[tuple[Source, NamedContainer]]:
    text = recorded_source(trace, container.file) if container.file else None
    if text is None:
        return []
    attribute = "." in container.path
    found = named_containers(text, container.named, container.kind)
    return [(text, named) for named in found if named.attribute is attribute]


def _container_edits(
    trace: Trace, container: GrowingContainer, edit: Callable[[Source, NamedContainer], list[Edit]]
) -> tuple[Edit, ...]:
    for text, named in _containers_in_text(trace, container):
        made = edit(text, named)
        if made and recorded_edits.are_valid_edits(text, made):
            return tuple(made)
    return ()


def _search_advice(kept: KeptObjects | None) -> Prescription:
    """How to find what keeps memory to which no name leads."""
    if kept is not None and not kept.collects:
        says = "leave Python's collector on, or call gc.collect() now and then: nothing else frees circles"
    elif kept is not None and kept.kinds:
        says = f"look who refers to objects of type `{kept.kinds[0].short}`: gc.get_referrers() of one of them"
    elif kept is not None:
        says = "look who keeps what is made there: gc.get_referrers() of it, some steps later"
    else:
        says = "look for what is kept: tracemalloc between two epochs names its line"
    return Prescription("advice", Effect.EXACT, says)
