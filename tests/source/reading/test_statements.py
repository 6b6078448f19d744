"""What the text is asked first must say the same as the whole tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowtrain
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

TRICKY = """
import os, tensorflow as tf; from keras import (layers as own,
    models)
from tensorflow.data import \\
    Dataset as D
@fit(1)
@wrapped \\
    .fit (2)
class Held(fit(3), key=fit(4)):
    @ fit (5)
    def fit(self, x=fit(6)) -> fit(7):
        \"\"\"fit(8) is said only.\"\"\"
        return f"{fit(9)} {self.fit
            (10)}" if 0 else f"{[fit(11) for fit in fit(12)]!r:{fit(13)}}"
x = (model.fit  # of all ) )
     (14)); y = fit(15); ((fit))(16); fit\\
(17); outfit(1); fit2(1); fit = 1
try:
    z = [lambda: fit(18), *fit(19)]
except fit(20):
    pass
else:
    while fit(21): fit(22)
finally:
    with fit(23) as a, b.fit(24): pass
match fit(25):
    case Point(x=0) if fit(26):
        fit(27)
ds = D.range(3); \ufb01t(28)
""".replace("self.fit\n            (10)", "self.fit(10)")


def _every(source: Source) -> tuple[dict[str, set[ast.Call]], dict[ast.AST, ast.AST]]:
    """Calls by name and what each node stands in, found the long way."""
    calls: dict[str, set[ast.Call]] = {}
    above: dict[ast.AST, ast.AST] = {}
    for node in syntax_tree.walk(source.tree):
        above |= dict.fromkeys(syntax_tree.child_nodes(node), node)
        if isinstance(node, ast.Call) and node_lookup.called_name(node):
            calls.setdefault(node_lookup.called_name(node), set()).add(node)
    return calls, above


def _files() -> list[Path]:
    return sorted(Path(slowtrain.__file__).parent.rglob("*.py"))[::9]


def _sources() -> list[Source]:
    found = [Source("tricky.py", TRICKY.replace("\n", end)) for end in ("\n", "\r\n", "\r", "\n\x0c")]
    return found + [Source(str(file), file.read_text(encoding="utf-8")) for file in _files()]


def test_all_calls_are_found_and_nothing_else() -> None:
    assert [(source.file, name) for source in _sources() for name in _calls_found_wrongly(source)] == []


def _calls_found_wrongly(source: Source) -> Iterator[str]:
    calls, _ = _every(source)
    for name, wanted in calls.items():
        found = call_index.index_of(source).calls_of(name)
        if len(found) != len(wanted) or set(found) != wanted or (name.isascii() and name not in source.words):
            yield name


def test_calls_in_a_tricky_file_are_found() -> None:
    """With each way to end a line."""
    sources = [one for one in _sources() if one.file == "tricky.py"]
    found = [{ast.literal_eval(call.args[0]) for call in _every(source)[0]["fit"]} for source in sources]
    assert found == [{*range(1, 29)} - {8}] * 4


def test_calls_of_a_name_beyond_ascii_are_found() -> None:
    source = Source("train.py", "def größe(x):\n    return x\n\ngröße(1)\n")
    assert [call.lineno for call in call_index.index_of(source).calls_of("größe")] == [4]


def test_each_node_knows_what_it_stands_in() -> None:
    assert [(source.file, ast.dump(node)[:80]) for source in _sources() for node in _nodes_elsewhere(source)] == []


def _nodes_elsewhere(source: Source) -> Iterator[ast.AST]:
    _, above = _every(source)
    for node in [source.tree, *above][::-7]:  # not in the order in which they are gone through
        if node_lookup.Statements(source).get(node) is not above.get(node):
            yield node


def test_imports_reach_what_they_lead_to() -> None:
    assert [(source.file, line) for source in _sources() for line in _lines_beyond_imports(source)] == []


def _lines_beyond_imports(source: Source) -> Iterator[int]:
    """Lines of calls whose full name or whose data set no import of the file may lead to."""
    calls, _ = _every(source)
    for call in (c for several in calls.values() for c in several):
        whole = name_bindings.qualified_name(source, call.func)
        named = not whole or name_bindings.may_name(source, whole)
        if not named or (dataset_chains.makes_dataset(source, call) and not dataset_chains.may_make_dataset(source)):
            yield call.lineno


def test_what_no_import_leads_to_is_known_before_parsing() -> None:
    source = Source("a.py", "from keras.src import ops\nimport os.path, jax\nfrom .tensorflow import data\nx = = 1\n")
    assert name_bindings.may_name(source, "keras.src.ops.log", "os.path.join")
    assert not name_bindings.may_name(source, "keras.ops.log", "keras.layers.", "tensorflow.")
    assert not source.is_parsed


def test_a_file_without_the_name_is_not_parsed() -> None:
    source = Source("a.py", "def fit(x): = outfit(fit, fitted)\n")
    assert call_index.index_of(source).calls_of("fit", "predict") == []
    assert not source.is_parsed
    with pytest.raises(SyntaxError):
        call_index.index_of(source).calls_of("outfit")


def test_comments_behind_a_name_do_not_take_forever() -> None:
    text = f"fit{' # ) #' * 2000}\n" * 20
    assert call_index.index_of(Source("a.py", text)).calls_of("fit") == []
