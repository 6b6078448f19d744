"""Letters looked up one by one in an alphabet, and marked in an array: all letters of a text compared at once."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.evaluators import array_ranks, setting_origins, value_kinds
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting
from slowtrain.values import dataclass


@dataclass(frozen=True)
class Marks:
    """``for i, c in enumerate(text): for k in range(n): if ALPHABET[k] == c: target[…, i, k] = value``."""

    loop: ast.For
    text: ast.Name
    alphabet: ast.Name
    count: ast.expr
    target: ast.Subscript
    value: ast.expr


def at_once(source: Source, line: int) -> list[Edit]:
    """The loops around ``line`` as one comparison of letters with the alphabet, of all texts where they are known."""
    for node in call_index.nodes_of_kind(source, ast.For):
        if isinstance(node, ast.For) and node.lineno <= line <= (node.end_lineno or 0):
            found = _marks(source, node)
            if found is not None and _stays(source, found):
                return _of_all(source, found) or _of_one(source, found)
    return []


def _marks(source: Source, loop: ast.For) -> Marks | None:
    inner = loop.body[0] if len(loop.body) == 1 else None
    test = inner.body[0] if isinstance(inner, ast.For) and len(inner.body) == 1 else None
    put = test.body[0] if isinstance(test, ast.If) and len(test.body) == 1 and not test.orelse else None
    counted = enumerated(loop)
    if (
        counted is None
        or not isinstance(inner, ast.For)
        or not isinstance(test, ast.If)
        or not isinstance(put, ast.Assign)
    ):
        return None
    if loop.orelse or inner.orelse or not isinstance(inner.target, ast.Name) or not isinstance(inner.iter, ast.Call):
        return None
    if scope_names.dotted_name(inner.iter.func) != "range" or len(inner.iter.args) != 1 or len(put.targets) != 1:
        return None
    place, letter, text = counted
    if not isinstance(text, ast.Name):
        return None
    count = inner.iter.args[0]
    names = (place, letter, inner.target.id)
    alphabet = _compared(test.test, names[1], names[2])
    target = put.targets[0]
    if alphabet is None or not _letters(source, alphabet) or not isinstance(target, ast.Subscript):
        return None
    places = target.slice.elts if isinstance(target.slice, ast.Tuple) else []
    ends = [scope_names.dotted_name(p) for p in places[-2:]]
    if (
        ends != [names[0], names[2]]
        or not isinstance(target.value, ast.Name)
        or any(isinstance(p, ast.Slice) for p in places)
    ):
        return None
    fixed = [*places[:-2], put.value, count]
    if set(names) & scope_names.read_names(fixed) or not all(isinstance(p, (ast.Name, ast.Constant)) for p in fixed):
        return None
    return Marks(loop, text, alphabet, count, target, put.value)


def enumerated(loop: ast.For) -> tuple[str, str, ast.expr] | None:
    """``i``, ``c`` and the text of ``for i, c in enumerate(text)``."""
    over, pair = loop.iter, loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    plain = isinstance(over, ast.Call) and scope_names.dotted_name(over.func) == "enumerate" and len(over.args) == 1
    if not isinstance(over, ast.Call) or not plain or over.keywords or len(pair) != 2:
        return None
    place, letter = pair
    named = isinstance(place, ast.Name) and isinstance(letter, ast.Name)
    return (scope_names.dotted_name(place), scope_names.dotted_name(letter), over.args[0]) if named else None


def _compared(test: ast.expr, letter: str, k: str) -> ast.Name | None:
    """The ``ALPHABET`` of ``ALPHABET[k] == letter``."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    sides = [test.left, test.comparators[0]]
    items = [s for s in sides if isinstance(s, ast.Subscript) and scope_names.dotted_name(s.slice) == k]
    plain = [s for s in sides if scope_names.dotted_name(s) == letter]
    owner = items[0].value if len(items) == 1 and len(plain) == 1 else None
    return owner if isinstance(owner, ast.Name) else None


def _letters(source: Source, alphabet: ast.Name) -> bool:
    """Whether the alphabet is a text that the file spells out."""
    found = setting_origins.written_value(source, alphabet)
    return isinstance(found, ast.Constant) and isinstance(found.value, str)


def _stays(source: Source, found: Marks) -> bool:
    """Whether the array is NumPy's, and none of the loops' names is needed elsewhere."""
    array = found.target.value
    return isinstance(array, ast.Name) and array_ranks.is_array(source, array) and names_stay(source, found.loop)


def names_stay(source: Source, loop: ast.For) -> bool:
    """Whether none of the names that a loop binds is needed outside of it."""
    inside = {id(n) for n in syntax_tree.walk(loop)}
    names = scope_names.bound_names(loop)
    return not any(
        isinstance(n, ast.Name) and n.id in names and id(n) not in inside and isinstance(n.ctx, ast.Load)
        for one in scope_names.scope_body(scope_names.enclosing_scope(source, loop))
        for n in syntax_tree.walk(one)
    )


def _of_one(source: Source, found: Marks) -> list[Edit]:
    """The letters of one text: the loops around it stay."""
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    text = found.text.id
    letters = f"{numpy}.array(list({text}))[:, None]"
    return [*importing, edits.replace_node(source, found.loop, _marked(source, found, numpy, f":len({text})", letters))]


def _of_all(source: Source, found: Marks) -> list[Edit]:
    """The letters of all texts, where the loop around goes through a list of texts and does nothing else.

    Shorter texts are filled up with empty ones, which are no letter of any alphabet.
    """
    outer = node_lookup.parents_of(source).get(found.loop)
    if (
        not isinstance(outer, ast.For)
        or outer.body != [found.loop]
        or outer.orelse
        or not isinstance(outer.iter, ast.Call)
    ):
        return []
    over = (
        outer.iter.args[0]
        if scope_names.dotted_name(outer.iter.func) == "enumerate" and len(outer.iter.args) == 1
        else None
    )
    if not isinstance(over, ast.Name) or not isinstance(outer.target, ast.Tuple) or outer.iter.keywords:
        return []
    number, text = (scope_names.dotted_name(e) for e in outer.target.elts)
    places = found.target.slice.elts if isinstance(found.target.slice, ast.Tuple) else []
    if (
        text != found.text.id
        or [scope_names.dotted_name(p) for p in places[:-2]] != [number]
        or not _texts(source, over)
    ):
        return []
    scope = scope_names.enclosing_scope(source, outer)
    inside = {id(n) for n in syntax_tree.walk(outer)}
    every = [
        n
        for one in scope_names.scope_body(scope)
        for n in syntax_tree.walk(one)
        if isinstance(n, ast.Name) and id(n) not in inside
    ]
    if any(n.id in (number, text) and isinstance(n.ctx, ast.Load) and _same(source, n, scope) for n in every):
        return []
    indent = source.text.split("\n")[outer.lineno - 1][: outer.col_offset]
    if indent.strip():
        return []
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    name = extracting.free_name(source, "letters", f"{text}_letters")
    made = f'{name} = {numpy}.array({over.id}).view("<U1").reshape(len({over.id}), -1)'
    marked = _marked(source, found, numpy, f":len({over.id}), :{name}.shape[1]", f"{name}[:, :, None]")
    return [*importing, edits.replace_node(source, outer, f"{made}\n{indent}{marked}")]


def _same(source: Source, name: ast.Name, scope: ast.AST) -> bool:
    """Whether a name is the scope's own, and not one of a comprehension or a function inside."""
    above = node_lookup.parents_of(source)
    at = above.get(name)
    while at is not None and at is not scope:
        turns = at.generators if isinstance(at, scope_names.COMPREHENSIONS) else []
        if any(name.id in scope_names.bound_names(g.target) for g in turns):
            return False
        at = above.get(at)
    return True


def _marked(source: Source, found: Marks, numpy: str, rows: str, letters: str) -> str:
    count = edits.node_text(source, found.count)
    owner = edits.node_text(source, found.target.value)
    places = found.target.slice.elts if isinstance(found.target.slice, ast.Tuple) else []
    ahead = "" if rows.count(",") else "".join(f"{edits.node_text(source, p)}, " for p in places[:-2])
    alphabet = f"{numpy}.array(list({found.alphabet.id}[:{count}]))"
    return f"{owner}[{ahead}{rows}, :{count}][{letters} == {alphabet}] = {edits.node_text(source, found.value)}"


def _texts(source: Source, name: ast.Name) -> bool:
    """Whether a name stands for a list of texts, at least as far as its making tells."""
    scope = value_kinds.binding_function(source, name)
    found = scope_names.binding_statements(source, name.id, scope) if scope is not None else []
    made = found[0].value if len(found) == 1 and isinstance(found[0], ast.Assign) else None
    if isinstance(made, ast.ListComp):
        return _text(made.elt)
    return isinstance(made, ast.List) and bool(made.elts) and all(_text(e) for e in made.elts)


def _text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and node_lookup.called_name(node) == "join")
