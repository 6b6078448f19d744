"""What calls, operators and subscripts make of arrays and data sets whose sizes are known."""

from __future__ import annotations

import ast

import pytest

from slowtrain.script.interpreter.domain.abstract_values import Shape
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text import source_file, syntax_tree

TRAINING = "def train(model): model.fit(0)\n"
IMPORTS = f"import numpy as np, tensorflow as tf\n{TRAINING}rng = np.random.default_rng(0)\nx = np.zeros((10, 4))\n"


def asked(expression: str) -> tuple[source_file.Source, ast.expr]:
    """The file and the expression in it, where ``x`` is an array of 10 rows of 4."""
    text = source_file.parse_source("train.py", f"{IMPORTS}ask({expression})")
    assert text is not None
    calls = [n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ask"]
    return text, calls[-1].args[0]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        # drawn and made
        ("np.ones(5)", (5,)),
        ("np.full((5, 2), 7)", (5, 2)),
        ("np.random.rand(5, 2)", (5, 2)),
        ("np.random.rand()", ()),
        ("rng.normal(0.0, 1.0, (5, 2))", (5, 2)),
        ("rng.normal(size=5)", (5,)),
        ("rng.normal(0.0, 1.0)", None),
        ("tf.random.normal((5, 2))", (5, 2)),
        ("tf.random.uniform(shape=[5])", (5,)),
        ("rng.poisson(x)", (10, 4)),
        ("np.zeros(given)", None),  # it may be a tuple
        ("np.zeros((given, 3))", (None, 3)),
        ("np.arange(2, 10, 3)", (3,)),
        ("np.arange(0, 5, 0)", (None,)),
        ("np.arange(0.0, 1.0, 0.1)", (None,)),
        ("np.linspace(0, 1)", (50,)),
        ("np.linspace(0, 1, 7)", (7,)),
        ("np.frombuffer(given)", (None,)),
        # kept
        ("x.astype('float32').copy()", (10, 4)),
        ("np.sqrt(x)", (10, 4)),
        ("np.asarray([[1, 2, 3], [4, 5, 6]])", (2, 3)),
        ("x.reshape(-1, 2)", (None, 2)),
        ("np.reshape(x, (4, 10))", (4, 10)),
        ("x.T", (4, 10)),
        ("given.astype('float32')", None),
        # as large as both
        ("x + 1", (10, 4)),
        ("x * np.zeros(4)", (10, 4)),
        ("x + np.zeros((10, 1))", (10, 4)),
        ("np.zeros((3, 1)) - np.zeros((1, 5))", (3, 5)),
        ("np.zeros((3, 1)) - given", None),
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
        ("x[0, 1]", ()),
        ("x[2:5]", (3, 4)),
        ("x[:, :2]", (10, 2)),
        ("x[::3]", (4, 4)),
        ("x[None]", (1, 10, 4)),
        ("x[..., None]", (10, 4, 1)),
        ("x[..., 0]", (10,)),
        ("x[given:given + 6]", (6, 4)),
        ("x[given:other + 6]", (None, 4)),
        ("x[np.arange(3)]", (3, 4)),
        ("x[x[:, 0] > 0]", (None, 4)),
        ("x[x > 0]", (None,)),
        ("x[~(x[:, 0] > 0)]", (None, 4)),
        ("x[np.ones(10, dtype=bool)]", (None, 4)),
        ("x[np.ones(10).astype(bool)]", (None, 4)),
        ("x[given]", None),
        # put together and over
        ("np.stack([x, x, x])", (3, 10, 4)),
        ("np.stack([x, x, x], axis=-1)", (10, 4, 3)),
        ("np.stack([x, x, x], axis=9)", None),
        ("np.expand_dims(x, 0)", (1, 10, 4)),
        ("np.expand_dims(x, 1)", (10, 1, 4)),
        ("x.mean(0)", (4,)),
        ("np.sum(x, axis=1)", (10,)),
        ("x.sum(axis=1, keepdims=True)", (10, 1)),
        ("x.sum(axis=1, keepdims=False)", (10,)),
        ("x.sum(axis=5)", None),
        ("x.sum()", ()),
    ],
)
def test_which_shape_comes_of_it(expression: str, wanted: Shape | None) -> None:
    assert queries.shape_at(*asked(expression)) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("max(3, 4)", 4), ("min(3, given)", None), ("int(3)", 3), ("len(x)", 10), ("x.shape[1]", 4), ("x.size", 40)],
)
def test_which_number_comes_of_it(expression: str, wanted: int | None) -> None:
    assert queries.int_at(*asked(expression)) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("range(3, 9)", 6), ("range(given)", None), ("zip(x, [1, 2])", 2), ("x", 10), ("[3, 4]", 2), ("'text'", None)],
)
def test_how_many_rows_it_has(expression: str, wanted: int | None) -> None:
    assert queries.row_count_at(*asked(expression)) == wanted


def test_numbers_are_not_joined_by_what_is_not_known_of_them() -> None:
    assert queries.int_at(*asked("7 // 2")) == 3
    assert queries.int_at(*asked("7 % 0")) is None


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
        (f"{SLICES}(x).batch(given)", 10, (4,), None),
        (f"{SLICES}(x).batch(3).batch(2)", 10, (4,), None),
        (f"{SLICES}(x).map(given).batch(3)", 10, (4,), 3),
        (f"{SLICES}(x).take(4)", 10, (4,), None),
        (f"{SLICES}(x).filter(given)", None, (4,), None),
    ],
)
def test_what_a_data_set_has(expression: str, rows: object, element: Shape | None, batch: int | None) -> None:
    found = queries.dataset_at(*asked(expression))
    assert found is not None
    leaves = [one.shape for one in interpreted_datasets.element_leaves(found.stages[0].after)]
    assert (found.data.get("rows"), leaves[0], found.data.get("batch")) == (rows, element, batch)


@pytest.mark.parametrize(("given", "rows"), [("(x, x)", 10), ("[[1, 2], [3, 4], [5, 6]]", 3), ("[x, x]", 2)])
def test_a_tuple_by_a_name_has_parts_and_a_list_rows(given: str, rows: int) -> None:
    found = queries.dataset_at(*asked(f"1)\ndata = {given}\nask({SLICES}(data)"))
    assert found is not None
    assert found.data["rows"] == rows


def test_which_data_sets_end() -> None:
    for ends, expression in [(False, "repeat()"), (False, "repeat(-1)"), (True, "repeat(3)"), (True, "batch(2)")]:
        found = queries.dataset_at(*asked(f"{SLICES}(x).{expression}"))
        assert found is not None
        assert queries.is_endless(found) is not ends
