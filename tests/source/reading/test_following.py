"""Which function a call runs, and which loops run it in every turn."""

from __future__ import annotations

import ast

import pytest

from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import source_file, syntax_tree
from slowtrain.script.text.source_file import Source

# Each has one call of ``run``, and the function that it runs, if one is sure, is marked by ``here``.
OWN = "class C:\n    def run(self):\n        here\n    def two(self):\n        0\n"
OTHER = "class D:\n    def run(self):\n        0\n"


def parsed(script: str) -> Source:
    text = source_file.parse_source("train.py", f"{script}\ndef train(model):\n    model.fit(0)\n")
    assert text is not None
    return text


def called(text: Source, name: str) -> ast.Call:
    return next(
        n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and node_lookup.called_name(n) == name
    )


@pytest.mark.parametrize(
    "script",
    [
        "def run():\n    here\nrun()",
        "def main():\n    def run():\n        here\n    run()\ndef other():\n    def run():\n        0",
        OWN + OTHER + "c = C()\nc.run()",
        OWN + OTHER + "def f(c):\n    c.run()\nf(C())",
        OWN
        + OTHER
        + "class K:\n    def __init__(self, c):\n        self.c = c\n    def f(self):\n        self.c.run()\nK(C())",
        OWN.replace("0", "self.run()") + OTHER,
        "class C:\n    def __call__(self):\n        here\nrun = C()\nrun()",
    ],
)
def test_the_function_that_a_call_runs(script: str) -> None:
    text = parsed(script)
    found = queries.called_function(text, called(text, "run"))
    assert found is not None
    assert "here" in ast.unparse(found)


@pytest.mark.parametrize(
    "script",
    [
        "run()",
        "def run():\n    0\nclass K:\n    def run(self):\n        0\nother.run()",  # whose it is
        OWN + "other.run()",  # a name that many libraries have as well
        OWN + OTHER + "c = C() if given else D()\nc.run()",
        OWN + "run()",  # a method is not called by its name alone
        "for run in functions:\n    run[0]()\nrun()",
    ],
)
def test_calls_that_may_run_anything(script: str) -> None:
    text = parsed(script)
    assert queries.called_function(text, called(text, "run")) is None


def test_a_name_that_no_library_has_is_the_files_own() -> None:
    text = parsed("class C:\n    def tally(self):\n        here\nother.tally()")
    found = queries.called_function(text, called(text, "tally"))
    assert found is not None
    assert queries.calls_running(text, found) == [called(text, "tally")]


def test_what_a_function_gives_back() -> None:
    text = parsed("def f():\n    def g():\n        return 1\n    if x:\n        return 2\n    yield 3\n    return")
    made = node_lookup.function_named(text, "f")
    assert made is not None
    assert sorted(ast.unparse(e) for e in scope_names.returned_values(made)) == ["2", "3"]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("for a in b:\n    mark()", [1]),
        ("while a:\n    with b:\n        mark()", [1]),
        ("for a in b:\n    for c in d:\n        mark()", [2]),
        ("def f():\n    mark()\nfor a in b:\n    f()", [3]),
        ("def f():\n    mark()\nfor a in b:\n    f()\nwhile c:\n    f()", [3, 5]),
        ("def f():\n    mark()\ndef g():\n    f()\nfor a in b:\n    g()", [5]),
        ("for a in b:\n    if c:\n        mark()", []),
        ("for a in b:\n    x = [mark() for c in d]", []),
        ("for a in b:\n    x = lambda: mark()", []),
        ("for a in mark():\n    0", []),
        ("for a in b:\n    0\nelse:\n    mark()", []),
        ("for a in b:\n    try:\n        mark()\n    except E:\n        0", []),
        ("def f():\n    mark()\nfor a in b:\n    if c:\n        f()", []),
        ("def f():\n    mark()\n    f()", []),
        ("mark()", []),
    ],
)
def test_the_loops_that_repeat_it(script: str, lines: list[int]) -> None:
    text = parsed(script)
    assert [loop.lineno for loop, _ in queries.loops_running(text, called(text, "mark"))] == lines


STEP = "def step(x):\n    with tf.GradientTape() as tape:\n        0\n"
LOOP = "for x in data:\n    step(x)\n    for y in x:\n        look(y)\n    if x:\n        rarely()\n    other.run()\n"


def test_what_the_loop_of_steps_enters() -> None:
    text = parsed(STEP + OWN + "def look(y):\n    0\ndef rarely():\n    0\n" + LOOP)
    (steps,) = step_loops.step_loops_of(text)
    assert steps.graph
    assert [made.name for _, made in step_loops.functions_per_turn(text, steps)] == ["look"]


def test_a_method_is_entered_where_its_object_is_known() -> None:
    text = parsed(STEP + OWN + OTHER + "other = C()\n" + LOOP)
    (steps,) = step_loops.step_loops_of(text)
    assert [ast.unparse(made.body[0]) for _, made in step_loops.functions_per_turn(text, steps)] == ["here"]
