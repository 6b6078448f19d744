"""Makes a function build its model once, if each call builds, compiles and sets the weights of an equal model."""

from __future__ import annotations

import ast

from slowtrain.causes.host.compile_in_loop import model_hoisting
from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, class_members, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

COPY_FUNCTION = "clone_model"
CHANGING_ATTRIBUTES = frozenset({"clear_session", "adapt", "add", "pop", "trainable"})
REUSE_TEMPLATE = """\
if not {kept}:
{made}
{unit}{model}.optimizer.build({model}.trainable_variables)
{unit}{kept}.append(({model}, [v.numpy() for v in {model}.optimizer.variables]))
{model}, {state} = {kept}[0]
for variable, value in zip({model}.optimizer.variables, {state}):
{unit}variable.assign(value)"""


def reuse_model(source: Source, line: int) -> list[Edit]:
    """Makes the function at ``line`` build and compile its model in the first call only.

    Its next use must be ``set_weights``, nothing but ``get_weights`` may leave the function, and every call must build
    the same model. The optimizer's state is reset in each call. ``line`` may also be in a function that it calls.
    """
    function = source.function_at(line)
    functions = [function, *_calling_functions(source, function)] if isinstance(function, ast.FunctionDef) else []
    for one in functions:
        for made in one.body:
            if isinstance(made, ast.Assign) and _makes_model(source, made):
                found = _function_edits(source, one, made)
                if found:
                    return found
    return []


def _calling_functions(source: Source, made: ast.FunctionDef) -> list[ast.FunctionDef]:
    holders = [node_lookup.enclosing_function(source, c) for c in call_index.index_of(source).called(made.name)]
    return [h for h in dict.fromkeys(holders) if isinstance(h, ast.FunctionDef)]


def _makes_model(source: Source, made: ast.Assign) -> bool:
    call = made.value
    if len(made.targets) != 1 or not isinstance(made.targets[0], ast.Name) or not isinstance(call, ast.Call):
        return False
    return node_lookup.called_name(call) == COPY_FUNCTION or model_hoisting.makes_model(source, call)


def _function_edits(source: Source, function: ast.FunctionDef, made: ast.Assign) -> list[Edit]:
    at, name = function.body.index(made), scope_names.dotted_name(made.targets[0])
    after = function.body[at + 1 :]
    compiled = after[0] if after and _called_name(after[0]) == f"{name}.compile" else None
    rest = after[1:] if compiled is not None else after
    built: list[ast.stmt] = [made] if compiled is None else [made, compiled]
    if compiled is None and not model_hoisting.is_compiled(source, made):
        return []
    if not rest or _called_name(rest[0]) != f"{name}.set_weights" or name in _names_passed(rest[0]):
        return []
    if not _owns_model(source, function, name) or not _builds_the_same(source, function, built):
        return []
    return _reuse_edits(source, function, built, name)


def _called_name(statement: ast.stmt) -> str:
    """``model.compile`` for the statement ``model.compile(...)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return scope_names.dotted_name(call.func) if isinstance(call, ast.Call) else ""


def _names_passed(statement: ast.stmt) -> set[str]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        scope_names.read_names([*call.args, *(k.value for k in call.keywords)]) if isinstance(call, ast.Call) else set()
    )


def _owns_model(source: Source, function: ast.FunctionDef, name: str) -> bool:
    """Whether only ``function`` has the model, binds it once and does not change it."""
    above = node_lookup.parents_of(source)
    if len(scope_names.binding_statements(source, name, function)) != 1 or "clear_session" in source.words:
        return False
    for node in syntax_tree.walk(function):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)):
            return False
        if (
            isinstance(node, ast.Attribute)
            and node.attr in CHANGING_ATTRIBUTES
            and scope_names.dotted_name(node.value) == name
        ):
            return False
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            parent = above.get(node)
            if not isinstance(parent, ast.Attribute) or parent.attr not in model_hoisting.MODEL_ATTRIBUTES:
                return False
            if not isinstance(parent.ctx, ast.Load) or node_lookup.enclosing_function(source, node) is not function:
                return False
    return True


def _builds_the_same(source: Source, function: ast.FunctionDef, built: list[ast.stmt]) -> bool:
    """Whether every call builds the same model: from parameters with equal arguments, and from values that stay."""
    read, parameters = (
        scope_names.read_names(built) - scope_names.bound_names(built),
        scope_names.parameter_names(function),
    )
    if read & scope_names.bound_names(function.body) or "self" in read:
        return False  # another object may have another value
    calls = call_index.index_of(source).called(function.name)
    named = [
        n for n in syntax_tree.walk(source.tree)
        if function.name in (getattr(n, "id", ""), getattr(n, "attr", "")) and isinstance(n, (ast.Name, ast.Attribute))
    ]  # fmt: skip
    if not calls or len(named) != len(calls):
        return False  # it may be called by other means
    places = parameters[1:] if parameters[:1] == ["self"] else parameters
    given: list[ast.AST] = [*built]
    for name in read & set(parameters):
        arguments = [node_lookup.argument_value(c, name, places.index(name)) for c in calls]
        if any(a is None or not _is_loop_invariant(source, a) for a in arguments):
            return False
        if len({ast.dump(a) for a in arguments if a is not None}) != 1:
            return False
        given += [a for a in arguments if a is not None]
    if any(scope_names.is_rebound(source, n, source.tree) for n in read - set(parameters)):
        return False
    attributes = {n.attr for g in given for n in syntax_tree.walk(g) if isinstance(n, ast.Attribute)}
    return not class_members.is_stored_outside_init(source, attributes)


def _is_loop_invariant(source: Source, given: ast.expr) -> bool:
    """Whether an argument is the same in every iteration of the loops around the call."""
    root = scope_names.dotted_name(given).partition(".")[0]
    if not root:
        return isinstance(given, ast.Constant)
    above, node = node_lookup.parents_of(source), node_lookup.enclosing_statement(source, given)
    around = (
        {n for loop in scope_names.enclosing_loops(source, node) for n in scope_names.bound_names(loop)}
        if node is not None
        else {root}
    )
    inner: ast.AST | None = given
    while inner is not None and not isinstance(inner, ast.stmt):
        if isinstance(inner, scope_names.COMPREHENSIONS):
            around |= {n.id for g in inner.generators for n in syntax_tree.walk(g.target) if isinstance(n, ast.Name)}
        inner = above.get(inner)
    return root not in around


def _reuse_edits(source: Source, function: ast.FunctionDef, built: list[ast.stmt], name: str) -> list[Edit]:
    rows = source.text.split("\n")
    first, last = built[0], built[-1]
    indent = rows[first.lineno - 1][: first.col_offset]
    tail = rows[(last.end_lineno or last.lineno) - 1].encode()[last.end_col_offset or 0 :].decode().strip()
    top = next(s for s in source.tree.body if any(n is function for n in syntax_tree.walk(s)))
    if indent.strip() or (tail and not tail.startswith("#")) or moved_statements.edits_cross_strings(built):
        return []
    kept = moved_statements.free_name(source, f"kept_{name}")
    state = moved_statements.free_name(source, "start_state", "optimizer_start")
    unit = edits.indentation_unit(source)
    made = "\n".join(
        f"{unit}{row}" if row else "" for one in built for row in moved_statements.statement_lines(rows, one)
    )
    text = REUSE_TEMPLATE.format(kept=kept, made=made, model=name, state=state, unit=unit)
    inside = "\n".join(f"{indent}{row}" if row else "" for row in text.split("\n")).lstrip()
    return [
        edits.insert_before(
            source, top, f"{kept} = []  # the model once it is built, and how its optimizer begins\n\n\n"
        ),
        edits.replace_statements(source, first, last, inside),
    ]
