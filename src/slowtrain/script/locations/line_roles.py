"""What lines of a script do: model code, compiled code, ops of a graph, longer containers."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from slowtrain.columns.spans import Event
from slowtrain.model import Place
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import source_file, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace
from slowtrain.trace.signals import memory_growth
from slowtrain.trace.signals.growth_suspects import GrowingContainer
from slowtrain.trace.signals.host.source_lines import (
    called_name,
    calls_of_names,
    function_around,
    last_name,
)

# Functions whose ops have other names.
FUNCTIONS_OF_OPS = {
    "eig": ("eig", "eigvals"),
    "selfadjointeig": ("eigh", "eigvalsh", "self_adjoint_eig", "self_adjoint_eigvals"),
    "where": ("where", "boolean_mask"),
    "pyfunc": ("numpy_function", "py_func"),
    "eagerpyfunc": ("py_function",),
    "stringsplit": ("split",),
    "stringtonumber": ("to_number",),
    "lookuptablefind": ("lookup",),
}
OP_VERSION = re.compile(r"(?:v\d+)?$")
MAX_ASSIGNMENTS = 6  # assignments that are followed


def calls_making_ops(source: Source, line: int, kinds: Collection[str]) -> list[ast.Call]:
    """Calls that make ops of these types, in the function that begins at ``line`` and in its callees."""
    function = _function_at(source, line)
    wanted = {name for kind in kinds for name in _function_names(kind)}
    found = source.reachable_functions(function) if function is not None else []
    calls = [n for one in found for n in syntax_tree.walk(one) if isinstance(n, ast.Call)]
    return [c for c in dict.fromkeys(calls) if node_lookup.called_name(c).replace("_", "").lower() in wanted]


def needs_batch_alone(source: Source, call: ast.Call) -> bool:
    """Whether the arguments of ``call`` depend only on its function's parameters, and on no model or variable."""
    function = node_lookup.enclosing_function(source, call)
    if function is None:
        return False
    parameters, todo = set(scope_names.parameter_names(function)), [*call.args, *(k.value for k in call.keywords)]
    for _ in range(MAX_ASSIGNMENTS):
        if any(
            not _is_tensorflow_call(source, n) for one in todo for n in syntax_tree.walk(one) if isinstance(n, ast.Call)
        ):
            return False
        reads = [n for one in todo for n in _variable_reads(source, one) if n.id not in parameters]
        assigned = [name_bindings.single_assignment(source, n) for n in reads]
        if any(one is None for one in assigned):
            return False
        todo = [one for one in assigned if one is not None]
        if not todo:
            return True
    return False


def _function_at(source: Source, line: int) -> ast.FunctionDef | None:
    """The function whose first line, of its decorators or ``def``, is ``line``."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and line in (node.lineno, *(d.lineno for d in node.decorator_list)):
            return node
    return None


def _function_names(kind: str) -> set[str]:
    plain = OP_VERSION.sub("", kind.lower())
    return {plain, *(name.replace("_", "") for name in FUNCTIONS_OF_OPS.get(plain, ()))}


def _is_tensorflow_call(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func).startswith("tensorflow.")


def _variable_reads(source: Source, node: ast.AST) -> Iterator[ast.Name]:
    """Names that a value is computed from, without modules."""
    modules = scope_names.import_aliases(source)
    for one in syntax_tree.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id not in modules:
            yield one


WEIGHT_RESTORERS = frozenset({"set_weights", "load_weights", "clone_model", "restore"})


def resets_weights(source: Source, step_line: int, line: int) -> bool:
    """Whether the loop around ``line`` resets the weights before it comes to the step at ``step_line``.

    All weights of a model at once, or each in a loop over a list. Assigning a learning rate does not count.
    """
    loop, _ = source.loop_at_line(line)
    if loop is None or not loop.lineno < step_line <= (loop.end_lineno or 0):
        return False
    inner, _ = source.loop_at_line(step_line)
    begins = inner.lineno if inner is not None and inner is not loop else step_line
    before = [node for node in syntax_tree.walk(loop) if loop.lineno < getattr(node, "lineno", 0) < begins]
    if any(isinstance(node, ast.Call) and node_lookup.called_name(node) in WEIGHT_RESTORERS for node in before):
        return True
    return any(_assigns_each(node) for node in before if isinstance(node, ast.For))


def _assigns_each(loop: ast.For) -> bool:
    """Whether it is ``for v, w in zip(variables, begun): v.assign(w)``."""
    names = {node.id for node in syntax_tree.walk(loop.target) if isinstance(node, ast.Name)}
    calls = [node for node in syntax_tree.walk(loop) if isinstance(node, ast.Call)]
    return any(scope_names.dotted_name(call.func) in {f"{name}.assign" for name in names} for call in calls)


KERAS_CHOICES = ("absent", "auto")


def is_xla_default(trace: Trace, compiled: Event | None) -> bool | None:
    """Whether ``compile()`` left it to Keras, which uses XLA on a GPU since version 3; None if unknown."""
    if compiled is None:
        return None
    setting = compiled.data.get("jit_compile_given")
    if setting is not None:
        return setting in KERAS_CHOICES
    keras = str(trace.facts.get("version.keras") or "")
    if not trace.on_accelerator or not keras.startswith("3."):
        return False
    return _omits_jit_compile(trace, compiled)  # the recording does not hold the argument


def _omits_jit_compile(trace: Trace, compiled: Event) -> bool | None:
    """Whether the call at that line has no ``jit_compile``, by its text."""
    source = recorded_source(trace, compiled.place.file) if compiled.place is not None else None
    call = (
        node_lookup.single_call(source, compiled.place.line, "compile")
        if source is not None and compiled.place
        else None
    )
    if call is None or any(k.arg is None for k in call.keywords):
        return None
    argument = node_lookup.argument_value(call, "jit_compile", node_lookup.JIT_COMPILE_POSITION)
    return argument is None or getattr(argument, "value", None) == "auto"


COMPILING_FUNCTIONS = frozenset("jit pmap grad value_and_grad vjp function gradient".split())


def is_model_code(tree: ast.Module, line: int, depth: int = 3) -> bool:
    """Whether a line is part of a layer's or model's computation, which runs when the model is first called."""
    function = function_around(tree, line)
    if function is None or not depth:
        return False
    if function.name == "call":
        return True
    return any(is_model_code(tree, one.lineno, depth - 1) for one in calls_of_names(tree, [function.name]))


def calls_compiled_code(tree: ast.Module, parts: Iterable[ast.AST | None]) -> bool:
    """Whether one of these parts of a file calls a function that the file has compiled, or a gradient function."""
    compiled: set[str] = set()
    for one in syntax_tree.walk(tree):
        if isinstance(one, ast.FunctionDef) and any(_names_compiler(d) for d in one.decorator_list):
            compiled.add(one.name)
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and _names_compiler(one.value):
            compiled.update(last_name(target) for target in one.targets)
    calls = (n for part in parts if part is not None for n in syntax_tree.walk(part) if isinstance(n, ast.Call))
    return any(called_name(call) in compiled or _names_compiler(call.func) for call in calls)


def _names_compiler(node: ast.AST) -> bool:
    return any(last_name(n) in COMPILING_FUNCTIONS for n in ast.walk(node))


MAX_LINES = 3  # lines per container

LENGTHENING_METHODS = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})
JOINING_FUNCTIONS = frozenset(
    "append concat concatenate hstack vstack dstack column_stack row_stack insert resize pad".split()
)


def growth_places(trace: Trace, why: Sequence[GrowingContainer], *, retraced: bool = False) -> tuple[Place, ...]:
    """The lines that lengthen a growing container; else the retraced function; else the call or the step."""
    found = adding_places(trace, why)
    if not found and retraced:
        found += [e.place for e in trace.events_of("trace") if e.place is not None][-1:]
    last = memory_growth.growth_unit(trace).place or trace.steps.place
    return tuple(dict.fromkeys(found or ([last] if last is not None else [])))


def adding_places(trace: Trace, why: Sequence[GrowingContainer]) -> list[Place]:
    """The lines that lengthen a growing container, as far as the text shows them."""
    found: list[Place] = []
    for one in why:
        found += one.sites
        for text in _source_texts(trace, one.file):
            found += [
                Place(text.file, n) for n in lengthening_lines(text, one.named, one.owner, array=one.array)[:MAX_LINES]
            ]
    return found


def _source_texts(trace: Trace, file: str) -> list[Source]:
    """The text of a file; without a file name, of a notebook's cells."""
    if file:
        found = [recorded_source(trace, file)]
    else:
        found = [source_file.parse_source(name, text) for name, text in (trace.fact("cells") or {}).items()]
    return [text for text in found if text is not None]


def lengthening_lines(source: Source, named: str, owner: str, *, array: bool = False) -> list[int]:
    """Lines that lengthen the container ``named``, or one stored in it; those in ``owner`` if there are any.

    ``owner`` is the function or class that binds the name, empty for a module. An ``array`` is replaced by a longer
    one; if no line joins arrays, the lines in loops that rebind the name.
    """
    statements = [n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.expr, ast.stmt))]
    found = [n.lineno for n in statements if (_joins_parts if array else _lengthens)(n, named)]
    if array and not found:
        found = [n.lineno for n in statements if isinstance(n, ast.Assign) and _binds_name(n, named)]
    owners = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, (*FUNCTION_NODES, ast.ClassDef)) and n.name == owner
    ]
    inside = [line for line in found if any(o.lineno <= line <= (o.end_lineno or o.lineno) for o in owners)]
    loops = [n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.For, ast.While))]
    chosen = inside or found
    looped = [line for line in chosen if any(n.lineno < line <= (n.end_lineno or 0) for n in loops)]
    return sorted(set(looped or chosen))


def _lengthens(node: ast.AST, named: str) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return (
            isinstance(function, ast.Attribute)
            and function.attr in LENGTHENING_METHODS
            and _is_container(function.value, named)
        )
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, (ast.Add, ast.BitOr)) and _is_container(node.target, named)
    if isinstance(node, ast.Assign):
        keyed = any(isinstance(t, ast.Subscript) and _is_container(t.value, named) for t in node.targets)
        longer = isinstance(node.value, ast.BinOp) and _is_container(node.value.left, named)
        spread = isinstance(node.value, (ast.List, ast.Tuple)) and any(
            isinstance(e, ast.Starred) and _is_container(e.value, named) for e in node.value.elts
        )
        return keyed or ((longer or spread) and any(_is_container(t, named) for t in node.targets))
    return False


def _binds_name(node: ast.Assign, named: str) -> bool:
    """Whether it assigns the name, also as one of several targets."""
    targets = [e for t in node.targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return any(_is_container(t, named) for t in targets)


def _joins_parts(node: ast.AST, named: str) -> bool:
    """Whether it is ``a = np.concatenate([a, b])``, also nested, or ``a = a.append(b)`` of a table."""
    if not isinstance(node, ast.Assign) or not _binds_name(node, named):
        return False
    for call in syntax_tree.walk(node.value):
        if isinstance(call, ast.Subscript) and _is_index_join(call, named):  # np.r_[a, b]
            return True
        if not isinstance(call, ast.Call) or node_lookup.called_name(call) not in JOINING_FUNCTIONS:
            continue
        arguments = [*call.args, *(k.value for k in call.keywords)]
        arguments += [e for one in arguments if isinstance(one, (ast.List, ast.Tuple)) for e in one.elts]
        arguments += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if any(_is_container(one, named) for one in arguments):
            return True
    return False


def _is_index_join(node: ast.Subscript, named: str) -> bool:
    """Whether it is ``np.r_[a, b]`` or ``np.c_[a, b]``."""
    owner, at = node.value, node.slice
    joins = isinstance(owner, ast.Attribute) and owner.attr in ("r_", "c_")
    return joins and isinstance(at, ast.Tuple) and any(_is_container(one, named) for one in at.elts)


def _is_container(node: ast.AST, named: str) -> bool:
    """Whether an expression is the name, an attribute of that name, or an item of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Name) and node.id == named) or (isinstance(node, ast.Attribute) and node.attr == named)
