"""The quick walk gives what the standard library's gives, in its order, but for nodes that say how another is meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slowtrain
from slowtrain.script.text import syntax_tree

LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
OWN = Path(slowtrain.__file__).parent
EVERY = """
import a.b as c
from d import e as f
match x:
    case {"k": [1, *rest], **more} | C(y=2) as z if z > 1: pass
async def g(a, /, b: int = 1, *c, d, **e) -> None:
    async with h() as i, j: yield await k
    async for l in m: del n[0:1, ...], o.p
    global q
    s = [t async for t in u]
    return lambda r=1: (r := -r) if not r else f"{r!r:>{s}}"
class T(U, metaclass=V):
    w: int
    x += 1
try: raise A from B
except (C, D) as e: pass
else: assert e and f or g, ([h for i in j if k], {**l}, {m: n for o in p})
finally: print(*q, **r)
"""


@pytest.mark.parametrize("text", [EVERY, *(path.read_text() for path in sorted((OWN / "source").glob("*.py")))])
def test_the_same_nodes_in_the_same_order(text: str) -> None:
    tree = ast.parse(text)
    wanted = [n for n in ast.walk(tree) if not isinstance(n, LEFT_OUT)]
    assert list(syntax_tree.walk(tree)) == wanted
    below = [c for n in wanted for c in ast.iter_child_nodes(n) if not isinstance(c, LEFT_OUT)]
    assert [c for n in wanted for c in syntax_tree.child_nodes(n)] == below
