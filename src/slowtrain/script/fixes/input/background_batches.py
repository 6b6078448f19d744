"""Edits that let threads make batches: the next batch of a loop, or several batches of a ``PyDataset``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.fixes.input import generator_edits, hoisted_conversions
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, class_members, node_lookup, scope_names
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, RANDOM_CALLS, Source, holds_line

# Calls that train. Statements before them in a loop make their input.
STEP_NAMES = frozenset(
    "train_on_batch test_on_batch fit GradientTape apply_gradients minimize train_step predict predict_on_batch".split()
)
PREFETCH_CODE = '''def {name}(batches):
    """The same batches in the same order, each made in a background thread while the one before it is used."""
    made, end = iter(batches), object()
    with {pool}(1) as pool:
        waiting = pool.submit(next, made, end)
        while (batch := waiting.result()) is not end:
            waiting = pool.submit(next, made, end)
            yield batch


'''


def prefetch_in_thread(source: Source, line: int) -> list[Edit]:
    """Let a background thread make the batches of the code at ``line`` one iteration ahead.

    The code is a generator that a loop iterates over, or the assignments at the start of a loop body. It must not share
    state with the rest of the loop that either of them changes.
    """
    for loop in _generator_loops(source, line):
        found = _prefetch_generator(source, loop)
        if found:
            return found
    loops = call_index.nodes_of_class(source, ast.For)
    for loop in sorted(loops, key=lambda n: -n.lineno):
        found = _prefetch_assignments(source, loop, line)
        if found:
            return found
    return []


def _generator_loops(source: Source, line: int) -> list[ast.For]:
    """Return loops over generators of the file that contain ``line`` or whose generator calls code there."""
    functions = [f for f in syntax_tree.walk(source.tree) if isinstance(f, FUNCTION_NODES) and holds_line(f, line)]
    holder = max(functions, key=lambda f: f.lineno, default=None)
    found = []
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.For) and _iterated_generator(source, node) is not None:
            reached = holder is not None and holder in source.reachable_functions(node.iter)
            if reached or (holds_line(node, line) and not _has_inner_loop_at(node, line)):
                found.append(node)
    return found


def _has_inner_loop_at(loop: ast.For, line: int) -> bool:
    """Whether a loop inside ``loop`` contains ``line``."""
    return any(
        n is not loop and isinstance(n, (ast.For, ast.While)) and holds_line(n, line) for n in syntax_tree.walk(loop)
    )


def _iterated_generator(source: Source, loop: ast.For) -> tuple[ast.FunctionDef, ast.Call] | None:
    """Return the generator function that ``loop`` iterates over, and its call."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    function = node_lookup.function_named(source, call.func.id, loop)
    if function is None or not any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(function.body)):
        return None
    return function, call


def _prefetch_generator(source: Source, loop: ast.For) -> list[Edit]:
    found = _iterated_generator(source, loop)
    if (
        found is None
        or not takes_training_step(source, loop.body)
        or not _is_independent(source, source.reachable_functions(found[0]), loop.body, loop)
    ):
        return []
    function, call = found
    name, also = _prefetch_helper(source, function if function in source.tree.body else _module_statement(source, loop))
    opened, closed = (
        edits.insert_text(source, edits.node_start(call), f"{name}("),
        edits.insert_text(source, edits.node_end(call), ")"),
    )
    return [*also, opened, closed]


def _prefetch_assignments(source: Source, loop: ast.For, line: int) -> list[Edit]:
    """Move the assignments at the start of ``loop`` into a generator that a thread runs ahead."""
    statements: list[ast.stmt] = []
    for statement in loop.body:
        if not isinstance(statement, ast.Assign) or not all(
            isinstance(t, (ast.Name, ast.Tuple)) for t in statement.targets
        ):
            break
        statements.append(statement)
    statements = statements[: _input_statement_count(source, statements)]
    rest = loop.body[len(statements) :]
    reached = [f for s in statements for f in source.reachable_functions(s)]
    if (
        not any(isinstance(n, ast.Call) for s in statements for n in syntax_tree.walk(s))
        or loop.orelse
        or not any(holds_line(f, line) for f in reached)
        or not takes_training_step(source, rest)
    ):
        return []
    in_class = isinstance(node_lookup.enclosing_node(source, loop, ast.ClassDef), ast.ClassDef)
    if in_class or not _can_move(source, statements):
        return []
    if not all(
        _is_plain_target(t) for s in statements if isinstance(s, ast.Assign) for t in s.targets
    ) or not _is_plain_target(loop.target):
        return []
    if _reads_previous_iteration(statements, loop) or not _is_independent(source, [*reached, loop.iter], rest, loop):
        return []
    return _extract_generator(source, loop, statements)


def _extract_generator(source: Source, loop: ast.For, statements: list[ast.stmt]) -> list[Edit]:
    name, also = _prefetch_helper(source, _module_statement(source, loop))
    own = moved_statements.free_name(source, "batches")
    names = list(
        dict.fromkeys(
            [
                *_target_names(loop.target),
                *(n for s in statements if isinstance(s, ast.Assign) for n in _assigned_names(s)),
            ]
        )
    )
    rows = source.text.splitlines()
    body = [
        rows[n - 1].removeprefix(" " * statements[0].col_offset)
        for n in range(statements[0].lineno, (statements[-1].end_lineno or 0) + 1)
    ]
    unit = edits.indentation_unit(source)
    head = f"for {edits.node_text(source, loop.target)} in {edits.node_text(source, loop.iter)}:"
    text = "\n".join(
        [
            f"def {own}():",
            f"{unit}{head}",
            *(f"{unit}{unit}{r}" if r else "" for r in body),
            f"{unit}{unit}yield {', '.join(names)}",
            "",
        ]
    )
    return [
        *also,
        edits.insert_before(source, loop, text + ("\n" if loop.col_offset else "\n\n")),
        Edit(
            source.file,
            edits.node_start(loop.target),
            edits.node_end(loop.iter),
            f"{', '.join(names)} in {name}({own}())",
        ),
        Edit(source.file, (statements[0].lineno, 0), ((statements[-1].end_lineno or 0) + 1, 0), ""),
    ]


def _input_statement_count(source: Source, statements: list[ast.stmt]) -> int:
    """Return the number of assignments before the one that takes the training step."""
    return next(
        (at for at, statement in enumerate(statements) if takes_training_step(source, [statement])), len(statements)
    )


def takes_training_step(source: Source, statements: Sequence[ast.stmt]) -> bool:
    """Whether ``statements``, or functions that they call, take a training step."""
    for node in (n for s in statements for f in source.reachable_functions(s) for n in syntax_tree.walk(f)):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in STEP_NAMES or "train_step" in name:
            return True
    return False


def _reads_previous_iteration(statements: list[ast.stmt], loop: ast.For) -> bool:
    """Whether the statements read a name with the value that they bound in the previous iteration."""
    bound = scope_names.bound_names(loop.target)
    later = {n for s in statements for n in scope_names.bound_names(s)}
    for statement in statements:
        if (scope_names.read_names(statement) & later) - bound:
            return True
        bound |= scope_names.bound_names(statement)
    return bool(later & scope_names.read_names(loop.iter))


def _can_move(source: Source, statements: list[ast.stmt]) -> bool:
    """Whether the lines of the statements can move with another indentation."""
    own = moved_statements.own_their_lines(source, statements)
    return own and not moved_statements.edits_cross_strings(statements) and "\t" not in source.text


def _is_plain_target(target: ast.expr) -> bool:
    return all(isinstance(n, (ast.Name, ast.Tuple, ast.expr_context)) for n in syntax_tree.walk(target))


def _target_names(target: ast.expr) -> list[str]:
    return [n.id for n in syntax_tree.walk(target) if isinstance(n, ast.Name)]


def _assigned_names(statement: ast.Assign) -> list[str]:
    return [n for t in statement.targets for n in _target_names(t)]


def _prefetch_helper(source: Source, at: ast.stmt) -> tuple[str, list[Edit]]:
    """Return the name of the helper that prefetches, and the edits that define it before ``at``."""
    name = moved_statements.free_name(source, "made_ahead")
    pool, also = edits.ensure_import(source, "concurrent.futures.ThreadPoolExecutor", "ThreadPoolExecutor")
    if also:
        pool, also = edits.ensure_import(source, "concurrent.futures", "futures")
        pool = f"{pool}.ThreadPoolExecutor"
    return name, [*also, edits.insert_before(source, at, PREFETCH_CODE.format(name=name, pool=pool))]


def _module_statement(source: Source, node: ast.AST) -> ast.stmt:
    """Return the module-level statement that contains ``node``."""
    return next(s for s in source.tree.body if any(n is node for n in syntax_tree.walk(s)))


def _is_independent(source: Source, making: Sequence[ast.AST], rest: Sequence[ast.stmt], loop: ast.For) -> bool:
    """Whether the code that makes a batch shares no changing state and no random draws with the rest of the loop."""
    using = [f for s in rest for f in source.reachable_functions(s)]
    if any(isinstance(n, (ast.Global, ast.Nonlocal)) for f in making for n in syntax_tree.walk(f)):
        return False
    draws = any(repeatable_functions.draws_or_mutates(source, f) for f in making)
    if draws and any(repeatable_functions.draws_or_mutates(source, s) for s in using):
        return False
    names = (
        scope_names.resolved_name(source, n)
        for f in making
        for n in syntax_tree.walk(f)
        if isinstance(n, ast.Attribute)
    )
    if any(n.startswith("tensorflow.") and ".random" in n for n in names):
        return False  # TensorFlow numbers its draws in order, together with those of the model
    if draws and any(isinstance(n, (ast.Break, ast.Return)) for n in scope_names.nodes_in_scope(rest)):
        return False
    known = set(scope_names.import_aliases(source)) | repeatable_functions.imported_names(source)
    known |= repeatable_functions.DETERMINISTIC_BUILTINS - _stored_names(source)
    known |= {n.name for n in syntax_tree.walk(source.tree) if isinstance(n, FUNCTION_NODES)}
    known |= {n for n in scope_names.read_names(source.tree) if hoisted_conversions.is_plain_constant(source, n)}
    own = {
        n
        for f in making
        for n in scope_names.bound_names(f)
        if isinstance(f, ast.stmt) and not isinstance(f, FUNCTION_NODES)
    }
    free = {n for f in making for n in scope_names.read_names(f)} - known - own - scope_names.bound_names(loop.target)
    used = {n for f in (*using, *rest) for n in scope_names.read_names(f) | scope_names.bound_names(f)}
    if free & used or any(generator_edits.later_changes(source, free, loop)):
        return False
    return not any(_may_be_kept_elsewhere(source, name, making) for name in free)


def _stored_names(source: Source) -> set[str]:
    """Return the names that the file binds anywhere."""
    names = call_index.nodes_of_class(source, ast.Name)
    return {n.id for n in names if not isinstance(n.ctx, ast.Load)}


def _may_be_kept_elsewhere(source: Source, name: str, making: Sequence[ast.AST]) -> bool:
    """Whether a value that is not an array was passed to code that may keep and change it."""
    inside = {id(n) for f in making for n in syntax_tree.walk(f)}
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, ast.Call) or id(node) in inside:
            continue
        arguments = [
            a for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Name) and a.id == name
        ]
        plain = scope_names.resolved_name(source, node.func).startswith(repeatable_functions.DETERMINISTIC_LIBRARIES)
        if (
            arguments
            and not plain
            and scope_names.dotted_name(node.func) not in repeatable_functions.DETERMINISTIC_BUILTINS
        ):
            return hoisted_conversions.table_kind(source, arguments[0]) is None
    return False


WORKER_COUNT = 4  # threads share the interpreter lock, so that more threads only help if they wait
WORKER_ARGUMENTS = ("workers", "use_multiprocessing")


def add_workers(source: Source, line: int) -> list[Edit]:
    """Set workers for the sequence whose ``__getitem__`` calls code at ``line``, if it draws no random numbers."""
    return _set_workers(source, line, draws=False)


def add_workers_to_drawing(source: Source, line: int) -> list[Edit]:
    """As :func:`same`, if it draws random numbers. The draws are assigned to other batches."""
    return _set_workers(source, line, draws=True)


def _set_workers(source: Source, line: int, *, draws: bool) -> list[Edit]:
    found = [o for o in generator_edits.sequence_classes(source) if _reaches_line(source, o, line)]
    owner = found[0] if len(found) == 1 else None
    getting = class_members.own_method(owner, "__getitem__") if owner is not None else None
    if owner is None or getting is None or getting.decorator_list or _sets_workers(source):
        return []
    reached = source.reachable_functions(getting)
    if any(repeatable_functions.draws_or_mutates(source, f) for f in reached) is not draws or not all(
        _is_thread_safe(source, f) for f in reached
    ):
        return []
    return _worker_argument(source, owner)


def _sets_workers(source: Source) -> bool:
    """Whether the file sets the number of workers already."""
    return any(isinstance(n, ast.keyword) and n.arg in WORKER_ARGUMENTS for n in syntax_tree.walk(source.tree))


def _reaches_line(source: Source, owner: ast.ClassDef, line: int) -> bool:
    getting = class_members.own_method(owner, "__getitem__")
    reached = source.reachable_functions(getting) if getting is not None else []
    return any(getattr(f, "lineno", 0) <= line <= (getattr(f, "end_lineno", 0) or 0) for f in reached)


def _is_thread_safe(source: Source, function: ast.AST) -> bool:
    """Whether concurrent calls of ``function`` are safe: it changes no shared state."""
    if isinstance(function, ast.FunctionDef) and not generator_edits.changes_only_own_results(function):
        return False
    inner = list(syntax_tree.walk(function))
    if any(isinstance(n, (ast.Global, ast.Nonlocal, ast.Yield)) for n in inner):
        return False
    if any(isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load) for n in inner):
        return False
    return all(_only_computes(source, n) for n in inner if isinstance(n, ast.Call))


def _only_computes(source: Source, call: ast.Call) -> bool:
    name = scope_names.resolved_name(source, call.func)
    if name.startswith(repeatable_functions.DETERMINISTIC_LIBRARIES):
        return True
    last = node_lookup.called_name(call)
    own = node_lookup.function_named(source, last) is not None and (
        isinstance(call.func, ast.Name) or name.startswith("self.")
    )
    known = hoisted_conversions.PURE_METHODS | RANDOM_CALLS | hoisted_conversions.DRAWING_METHODS | {"append", "extend"}
    if own or not isinstance(call.func, ast.Attribute):
        return own or last in repeatable_functions.DETERMINISTIC_BUILTINS
    return last in known


def _worker_argument(source: Source, owner: ast.ClassDef) -> list[Edit]:
    """Set the argument in the call of ``super().__init__(**more)``."""
    starting = class_members.own_method(owner, "__init__")
    inner = syntax_tree.walk(starting) if starting is not None else ()
    handed = [n for n in inner if isinstance(n, ast.Call) and _is_super_init(n.func)]
    starred = [k for call in handed for k in call.keywords if k.arg is None]
    if len(handed) != 1 or handed[0].args or len(starred) != 1:
        return []
    return [edits.insert_text(source, edits.node_start(starred[0]), f"workers={WORKER_COUNT}, ")]


def _is_super_init(function: ast.expr) -> bool:
    """Whether it is ``super().__init__``."""
    above = function.value if isinstance(function, ast.Attribute) and function.attr == "__init__" else None
    return isinstance(above, ast.Call) and node_lookup.called_name(above) == "super"
