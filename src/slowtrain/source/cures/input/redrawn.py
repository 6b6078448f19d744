"""Batches of nothing but random numbers, drawn anew in every epoch: those of one epoch drawn once, for all of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import prod

from slowtrain.model import Edit
from slowtrain.script.evaluators import literal_sizes
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, RANDOM_CALLS, Source
from slowtrain.source.cures.input import ahead, arrays, feeding_by_hand, generators

COMPUTING = ("numpy.", "tensorflow.", "random.", "math.")
READING = (".Variable", "keras", ".data.", ".io.", ".load", ".from", ".genfromtxt", ".memmap", ".lookup", ".gfile")
WIDEST = 8  # bytes of a number
SEEDING = frozenset({"seed", "set_seed", "set_random_seed", "default_rng", "RandomState", "from_seed"})


def drawn_once(source: Source, line: int, room_bytes: float, batch_bytes: float = 0.0) -> list[Edit]:
    """The batches that the loop around ``line`` draws in each epoch, in a list that is made before the epochs.

    Only where a batch consists of draws and nothing else, so that no data and no augmentation of data is lost, and
    where those of an epoch fit. How many bytes a batch takes the text tells, where no measurement does.
    """
    for loop in scope_names.enclosing_loops(source, _at(source, line) or source.tree):
        epochs = node_lookup.parents_of(source).get(loop)
        if isinstance(loop, ast.For) and isinstance(epochs, ast.For) and loop in epochs.body:
            return _listed(source, loop, epochs, room_bytes, batch_bytes)
    return []


def _at(source: Source, line: int) -> ast.stmt | None:
    """The innermost statement at ``line``."""
    found = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    return max(found, key=lambda n: (n.lineno, n.col_offset), default=None)


def _listed(source: Source, loop: ast.For, epochs: ast.For, room_bytes: float, batch_bytes: float) -> list[Edit]:
    turns = _turns(source, loop)
    made, rest, within = _divided(source, loop)
    each = batch_bytes or _bytes(source, made)
    if (
        turns is None
        or each is None
        or turns * each > room_bytes
        or not made
        or loop.orelse
        or not isinstance(loop.target, ast.Name)
    ):
        return []
    if not _only_draws(source, made, loop) or not ahead.lines_alone(source, [*made, rest[0]]):
        return []
    names = {n for s in made for n in scope_names.bound_names(s)}
    headers = [i.context_expr for i in within.items] if within is not None else []
    fixed = {n for s in made for part in source.called(s) for n in scope_names.read_names(part)}
    fixed |= {n for part in (*headers, loop.iter) for n in scope_names.read_names(part)}
    again = scope_names.bound_names([epochs.target, *rest, *(s for s in epochs.body if s is not loop)])
    if (fixed | names) & again or _reseeded(epochs) or _changed(source, names, rest):
        return []
    if _other_data(source, rest, names):
        return []
    return _moved(source, loop, epochs, made, within)


def _turns(source: Source, loop: ast.For) -> int | None:
    """How many batches an epoch has."""
    over = loop.iter
    if not isinstance(over, ast.Call) or scope_names.dotted_name(over.func) != "range" or len(over.args) != 1:
        return None
    return literal_sizes.literal_int(source, over.args[0])


def _bytes(source: Source, made: Sequence[ast.stmt]) -> float | None:
    """What a batch takes, and what it is made of; None where the text does not tell it."""
    total = 0
    for statement in made:
        shape = literal_sizes.literal_shape(source, statement.value) if isinstance(statement, ast.Assign) else None
        if shape is None or None in shape:
            return None
        total += WIDEST * prod(d or 0 for d in shape)
    return float(total)


def _divided(source: Source, loop: ast.For) -> tuple[list[ast.stmt], list[ast.stmt], ast.With | None]:
    """The assignments that make a batch, what comes after them, and the ``with tf.device`` that the last stand in."""
    made = _assigned(source, loop.body)
    rest = loop.body[len(made) :]
    block = rest[0] if rest else None
    if not isinstance(block, ast.With) or not all(_places(source, i) for i in block.items):
        return made, rest, None
    inner = _assigned(source, block.body)
    return [*made, *inner], [*block.body[len(inner) :], *rest[1:]], block if inner else None


def _assigned(source: Source, body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The first statements of ``body`` that give names a value and take no step, if something follows them."""
    found: list[ast.stmt] = []
    for statement in body[:-1]:
        if not isinstance(statement, ast.Assign) or ahead.takes_step(source, [statement]):
            break
        found.append(statement)
    return found


def _places(source: Source, item: ast.withitem) -> bool:
    """Whether a ``with`` only says on which device its ops run."""
    call = item.context_expr if item.optional_vars is None else None
    return isinstance(call, ast.Call) and scope_names.resolved_name(source, call.func) == "tensorflow.device"


def _only_draws(source: Source, made: Sequence[ast.stmt], loop: ast.For) -> bool:
    """Whether ``made`` draws, and reads nothing but numbers, generators of them, and what it made itself."""
    reached = list({id(f): f for s in made for f in source.called(s)}.values())
    if not any(repeatable_functions.draws_or_mutates(source, f) for f in reached):
        return False
    waits = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Global, ast.Nonlocal)
    inner = [n for f in reached for n in syntax_tree.walk(f)]
    calls = [n for n in inner if isinstance(n, ast.Call)]
    if any(isinstance(n, waits) for n in inner) or not all(_computes(source, c) for c in calls):
        return False
    own = {n for s in made for n in scope_names.bound_names(s)} | {
        loop.target.id if isinstance(loop.target, ast.Name) else ""
    }
    own |= {n.name for n in syntax_tree.walk(source.tree) if isinstance(n, FUNCTION_NODES)}
    known = (
        own
        | set(scope_names.import_aliases(source))
        | repeatable_functions.imported_names(source)
        | repeatable_functions.DETERMINISTIC_BUILTINS
    )
    free = {name for f in reached for name in scope_names.read_names(f)} - known
    return all(_number(source, n) for n in inner if isinstance(n, ast.Name) and n.id in free)


def _computes(source: Source, call: ast.Call) -> bool:
    """Whether a call draws or computes, and reads nothing from elsewhere."""
    name = scope_names.resolved_name(source, call.func)
    if name.startswith(COMPUTING):
        return not any(word in name for word in READING)
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in feeding_by_hand.METHODS | RANDOM_CALLS | arrays.DRAWS
    own = isinstance(call.func, ast.Name) and node_lookup.function_named(source, call.func.id, call) is not None
    return own or name in feeding_by_hand.PURE


def _number(source: Source, name: ast.Name) -> bool:
    return (
        arrays.plain(source, name.id)
        or arrays.generator(source, name)
        or literal_sizes.literal_int(source, name) is not None
    )


def _reseeded(epochs: ast.For) -> bool:
    return any(isinstance(n, ast.Call) and node_lookup.called_name(n) in SEEDING for n in syntax_tree.walk(epochs))


def _changed(source: Source, names: set[str], rest: Sequence[ast.stmt]) -> bool:
    """Whether a step changes its batch in place: it would be another one in the next epoch."""
    stored = (n for s in rest for n in syntax_tree.walk(s) if feeding_by_hand.stores(n))
    return any(generators.base(n) in names for n in stored) or any(
        feeding_by_hand.handed(source, names, s) for s in rest
    )


def _other_data(source: Source, rest: Sequence[ast.stmt], drawn: set[str]) -> bool:
    """Whether a step is given data beside what is drawn: then the draws are noise, and no stand-in for data."""
    inner = [n for s in rest for n in syntax_tree.walk(s)]
    read = [n for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    asked = any(isinstance(n, ast.Call) and node_lookup.called_name(n) in ("next", "get_next") for n in inner)
    return asked or any(n.id not in drawn and arrays.table(source, n) is not None for n in read)


def _moved(source: Source, loop: ast.For, epochs: ast.For, made: list[ast.stmt], within: ast.With | None) -> list[Edit]:
    """A loop that makes the batches in front of the epochs, and the loop over them in each."""
    inside = {id(n) for s in made for n in syntax_tree.walk(s)}
    used = {n.id for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Name) and id(n) not in inside
            and isinstance(n.ctx, ast.Load)}  # fmt: skip
    drawn = dict.fromkeys(n.id for s in made for n in syntax_tree.walk(s) if isinstance(n, ast.Name) and not _reads(n))
    carried = [n for n in (*scope_names.bound_names(loop.target), *drawn) if n in used]
    if not carried:
        return []
    name = feeding_by_hand.fresh(source, "batches", [])
    groups = [g for g in ([s for s in made if s in loop.body], [s for s in made if s not in loop.body]) if g]
    rows = [f"{name} = []", f"for {edits.node_text(source, loop.target)} in {edits.node_text(source, loop.iter)}:"]
    unit = edits.indentation_unit(source)
    for group in groups:
        inside_it = within is not None and group[0] in within.body
        if within is not None and inside_it:
            rows.append(f"{unit}with {', '.join(edits.node_text(source, i.context_expr) for i in within.items)}:")
        rows += [f"{unit * (1 + inside_it)}{row}" if row else "" for row in _rows(source, group)]
    together = ", ".join(carried)
    rows.append(f"{unit}{name}.append({f'({together})' if len(carried) > 1 else together})")
    gone = [Edit(source.file, (g[0].lineno, 0), ((g[-1].end_lineno or 0) + 1, 0), "") for g in groups]
    over = Edit(source.file, edits.node_start(loop.target), edits.node_end(loop.iter), f"{together} in {name}")
    return [edits.insert_before(source, epochs, "\n".join(rows)), over, *gone]


def _reads(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _rows(source: Source, group: Sequence[ast.stmt]) -> list[str]:
    """The lines of statements that follow one another, with what stands between them, at the left edge."""
    rows = source.text.splitlines()[group[0].lineno - 1 : group[-1].end_lineno]
    return [row.removeprefix(" " * group[0].col_offset) for row in rows]
