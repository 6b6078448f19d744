"""Whether a function gives the same for the same, or draws."""

from __future__ import annotations

import ast

import pytest

from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text.source_file import parse_source

HEAD = "import time\nimport numpy as np\nrng = np.random.default_rng(0)\n\n\ndef get(self, k):\n"


@pytest.mark.parametrize(
    ("body", "draws"),
    [
        ("g = np.random.default_rng(k)\nreturn g.normal(size=3)", False),
        ("rng = np.random.RandomState(self.seed + k)\nreturn rng.rand(3)", False),
        ("g = np.random.default_rng()\nreturn g.normal(size=3)", True),
        ("g = np.random.default_rng(None)\nreturn g.normal(size=3)", True),
        ("g = np.random.default_rng(int(time.time()))\nreturn g.normal(size=3)", True),
        ("g = np.random.default_rng(k)\nreturn g.normal(size=3) + np.random.rand()", True),
        ("return rng.normal(size=3)", True),
    ],
)
def test_a_generator_of_its_own_draws_the_same_again(body: str, draws: bool) -> None:
    source = parse_source("train.py", HEAD + "".join(f"    {line}\n" for line in body.split("\n")))
    assert source is not None
    function = next(n for n in source.tree.body if isinstance(n, ast.FunctionDef))
    assert repeatable_functions.draws_or_mutates(source, function) is draws
