"""What calls, operators and subscripts make of arrays and data sets whose sizes are known."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from slowtrain.script.evaluators import expression_values
from slowtrain.script.evaluators.array_rules import DatasetValue, Shape, operator_result, shape_of
from slowtrain.script.text import source_file, syntax_tree

IMPORTS = "import numpy as np, tensorflow as tf\nrng = np.random.default_rng(0)\nx = np.zeros((10, 4))\n"


def made(expression: str) -> Any:
    """What an expression comes to, where ``x`` is an array of 10 rows of 4."""
    text = source_file.parse_source("train.py", f"{IMPORTS}ask({expression})")
    assert text is not None
    calls = [n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ask"]
    return expression_values.static_value(text, calls[-1].args[0])


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        # drawn and made
        ("np.ones(5)", (5,)),
        ("np.full((5, 2), 7)", (5, 2)),
        ("np.random.rand(5, 2)", (5, 2)),
        ("np.random.rand()", None),
        ("rng.normal(0.0, 1.0, (5, 2))", (5, 2)),
        ("rng.normal(size=5)", (5,)),
        ("rng.normal(0.0, 1.0)", None),
        ("tf.random.normal((5, 2))", (5, 2)),
        ("tf.random.uniform(shape=[5])", (5,)),
        ("rng.poisson(x)", (10, 4)),
        ("np.zeros(given)", None),  # it may be a tuple
        ("np.zeros((given, 3))", (None, 3)),
        ("np.arange(2, 10, 3)", (3,)),
        ("np.arange(0, 5, 0)", None),
        ("np.arange(0.0, 1.0, 0.1)", None),
        ("np.linspace(0, 1)", (50,)),
        ("np.linspace(0, 1, 7)", (7,)),
        ("np.frombuffer(given)", (None,)),
        # kept
        ("x.astype('float32').copy()", (10, 4)),
        ("np.sqrt(x)", (10, 4)),
        ("np.asarray([[1, 2, 3], [4, 5, 6]])", (2, 3)),
        ("x.reshape(-1, 2)", (None, 2)),
        ("np.reshape(x, (4, 10))", (4, 10)),
        ("x.reshape()", None),
        ("x.T", (4, 10)),
        ("given.astype('float32')", None),
        # as large as both
        ("x + 1", (10, 4)),
        ("x * np.zeros(4)", (10, 4)),
        ("x + np.zeros((10, 1))", (10, 4)),
        ("np.zeros((3, 1)) - np.zeros((1, 5))", (3, 5)),
        ("np.zeros((3, 1)) - given", (3, None)),
        ("x + np.zeros(3)", (10, None)),
        ("x @ np.zeros((4, 7))", (10, 7)),
        ("x @ given", None),
        ("given + given", None),
        ("np.maximum(x, 0)", (10, 4)),
        ("np.maximum(np.zeros((3, 1)), np.zeros((1, 5)))", (3, 5)),
        ("np.where(x > 0, 1, x)", (10, 4)),
        ("np.where(x > 0)", None),
        ("x > 0", (10, 4)),
        ("-x", (10, 4)),
        # parts
        ("x[0]", (4,)),
        ("x[0, 1]", None),
        ("x[2:5]", (3, 4)),
        ("x[:, :2]", (10, 2)),
        ("x[::3]", (4, 4)),
        ("x[None]", (1, 10, 4)),
        ("x[..., None]", (10, 4, 1)),
        ("x[..., 0]", None),
        ("x[given:given + 6]", (6, 4)),
        ("x[given:other + 6]", (None, 4)),
        ("x[np.arange(3)]", (3, 4)),
        ("x[x[:, 0] > 0]", (None, 4)),
        ("x[x > 0]", (None,)),
        ("x[~(x[:, 0] > 0)]", (None, 4)),
        ("x[np.ones(10, dtype=bool)]", (None, 4)),
        ("x[np.ones(10).astype(bool)]", (None, 4)),
        ("x[given]", None),
        ("x[0, 0, 0]", None),
        # put together and over
        ("np.stack([x, x, x])", (3, 10, 4)),
        ("np.stack([x, x, x], axis=-1)", (10, 4, 3)),
        ("np.stack([x, x, x], axis=9)", None),
        ("np.expand_dims(x, 0)", (1, 10, 4)),
        ("np.expand_dims(x, 1)", None),
        ("x.mean(0)", (4,)),
        ("np.sum(x, axis=1)", (10,)),
        ("x.sum(axis=1, keepdims=True)", (10, 1)),
        ("x.sum(axis=1, keepdims=False)", (10,)),
        ("x.sum(axis=1, keepdims=given)", None),
        ("x.sum(axis=5)", None),
        ("x.sum()", None),
        # of Python
        ("range(3, 9)", (6,)),
        ("range(given)", None),
        ("zip(x, [1, 2])", (10,)),
    ],
)
def test_which_shape_comes_of_it(expression: str, wanted: Shape | None) -> None:
    assert shape_of(made(expression)) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("max(3, 4)", 4), ("min(3, given)", None), ("int(3)", 3), ("len(x)", 10), ("x.shape[1]", 4), ("x.size", None)],
)
def test_which_number_comes_of_it(expression: str, wanted: int | None) -> None:
    assert made(expression) == wanted


def test_numbers_are_not_joined_by_what_is_not_known_of_them() -> None:
    assert operator_result(ast.FloorDiv(), 7, 2) == 3
    assert operator_result(ast.Mod(), 7, 0) is None
    assert operator_result(ast.Pow(), 7, 2) is None
    assert operator_result(ast.Add(), 7, True) is None


SLICES = "tf.data.Dataset.from_tensor_slices"


@pytest.mark.parametrize(
    ("expression", "rows", "element", "batch"),
    [
        (f"{SLICES}(x)", 10, (4,), None),
        (f"{SLICES}((x, np.zeros(10)))", 10, (4,), None),
        (f"{SLICES}({{'a': x}})", 10, (4,), None),
        (f"{SLICES}([[1, 2, 3], [4, 5, 6]])", 2, (3,), None),
        (f"{SLICES}(([1, 2, 3], [4, 5, 6]))", 3, (), None),
        (f"{SLICES}(given)", None, None, None),
        (f"{SLICES}(x).shuffle(10).batch(3)", 10, (4,), 3),
        (f"{SLICES}(x).batch(given)", "nothing", None, None),
        (f"{SLICES}(x).batch(3).batch(2)", "nothing", None, None),
        (f"{SLICES}(x).map(given).batch(3)", 10, None, 3),
        (f"{SLICES}(x).take(4)", None, (4,), None),
        (f"{SLICES}(x).filter(given)", "nothing", None, None),
        ("tf.data.Dataset.range(10)", "nothing", None, None),
    ],
)
def test_what_a_data_set_has(expression: str, rows: object, element: Shape | None, batch: int | None) -> None:
    found = made(expression)
    if rows == "nothing":
        assert found is None
        return
    assert isinstance(found, DatasetValue)
    assert (found.rows, shape_of(found.element), found.batch) == (rows, element, batch)


@pytest.mark.parametrize(("given", "rows"), [("(x, x)", 10), ("[[1, 2], [3, 4], [5, 6]]", 3), ("[x, x]", 2)])
def test_a_tuple_by_a_name_has_parts_and_a_list_rows(given: str, rows: int) -> None:
    assert made(f"1)\ndata = {given}\nask({SLICES}(data)").rows == rows


def test_a_batch_says_where_its_size_is_given() -> None:
    found = made(f"{SLICES}(x).batch(batch_size=3)")
    assert isinstance(found.at, ast.Constant)
    assert found.at.value == 3
    assert made(f"{SLICES}(x).repeat()").endless
    assert not made(f"{SLICES}(x)").endless
