"""What stands at a line is what a plain walk through the whole tree finds there, in the same order."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.trace.signals.host import source_lines
from slowtrain.trace.signals.host.source_lines import (
    LOOP_NODES,
    called_name,
    calls_at,
    calls_of_names,
    function_around,
    loops_around,
)

CASES = Path(__file__).parents[2] / "clinic" / "cases" / "input"
LEAVES = ("x = f(a)", "f(\n    g(a),\n    [h(b) for b in a\n     if k(b)])", "for q in (f(i) for i in a): g(q)", "pass")
HEADS = (
    "for i in f(a):",
    "while f(a):",
    "def f(a, b=[g(i) for i in c]):",
    "async def g(a):",
    "class K(f(a)):",
    "if a:",
)


def holds(node: ast.AST, line: int) -> bool:
    first = getattr(node, "lineno", 0)
    return bool(first <= line <= (getattr(node, "end_lineno", 0) or first))


def by_walking(tree: ast.Module, line: int) -> tuple[object, object, object]:
    """The function around a line, the loops and the calls there."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and holds(n, line)]
    inner = max(functions, key=lambda n: n.lineno) if functions else None
    loops = [n for n in ast.walk(inner or tree) if isinstance(n, LOOP_NODES) and holds(n, line)]
    return inner, loops, [n for n in ast.walk(tree) if isinstance(n, ast.Call) and holds(n, line)]


def blocks(below: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    def nested(head: str, body: list[str], decorated: bool) -> list[str]:
        above = ["@f([g(i) for i in a])"] if decorated and ("def" in head or "class" in head) else []
        return [*above, head, *(f"    {line}" for line in body)]

    block = st.builds(nested, st.sampled_from(HEADS), below, st.booleans())
    return st.lists(block, min_size=1, max_size=3).map(lambda every: [line for one in every for line in one])


LINES = st.recursive(st.sampled_from(LEAVES).map(str.splitlines), blocks, max_leaves=12)


def same_at_every_line(text: str) -> None:
    tree = ast.parse(text)
    for line in (*range(text.count("\n") + 3), 10**30):
        assert (function_around(tree, line), loops_around(tree, line), calls_at(tree, line)) == by_walking(tree, line)
    for names in ([], ["f"], ["f", "g", "K"], ["gone"]):
        walked = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and called_name(n) in names]
        assert calls_of_names(tree, names) == walked


@given(LINES)
def test_of_any_text(every: list[str]) -> None:
    same_at_every_line("\n".join(every))


@pytest.mark.parametrize("path", sorted(CASES.glob("*/*/script.py"))[::16], ids=lambda p: p.parent.name)
def test_of_scripts(path: Path) -> None:
    same_at_every_line(path.read_text())


def test_of_nothing() -> None:
    same_at_every_line("")


def test_a_tree_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, walks = ast.parse("for i in f(a):\n    g(i)\n" * 50), []

    def walk(node: ast.AST) -> list[ast.AST]:
        walks.append(node)
        return list(ast.walk(node))

    monkeypatch.setattr(source_lines, "ast", SimpleNamespace(**{**vars(ast), "walk": walk}))
    for line in range(100):
        calls_at(tree, line)
        loops_around(tree, line)
    assert walks == [tree, tree], "once for calls and functions, once for the loops of the module"


def test_long_chains_of_calls_take_no_more_than_the_tree() -> None:
    """Each call of a chain begins at its first line: kept by line they would be as many as the square of the lines."""
    tree = ast.parse("x = (f\n" + "  .g()\n" * 600 + ")\n")
    assert [len(calls_at(tree, line)) for line in (1, 2, 300, 601, 602)] == [600, 600, 302, 1, 0]
