"""A data set of one batch, made for one turn of a loop: the batch in a list."""

from __future__ import annotations

import textwrap

import pytest

from slowtrain.causes.input.rebuilt_pipeline import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = "import numpy as np\nimport tensorflow as tf\n"
DATA = "tf.data.Dataset.from_tensor_slices"


def list_one_batch(text: str, parts: int = 2) -> str | None:
    """The text with the edit of its one line that makes a data set; None without one."""
    whole = HEAD + textwrap.dedent(text)
    source = parse_source("train.py", whole)
    assert source is not None
    line = 1 + next(i for i, row in enumerate(whole.split("\n")) if "Dataset" in row)
    found = fix.list_one_batch(source, line, parts)
    return edits.edited_text(source, found).removeprefix(HEAD) if found else None


@pytest.mark.parametrize(
    ("data", "batch", "parts"),
    [
        (f"{DATA}((x, y)).batch(len(x)).prefetch(1)", "(tf.convert_to_tensor(x), tf.convert_to_tensor(y))", 2),
        (f"{DATA}({{'a': x, 'b': y}}).batch(8)", "{'a': tf.convert_to_tensor(x), 'b': tf.convert_to_tensor(y)}", 2),
        ("tf.data.Dataset.from_tensors((x, y))", "(tf.convert_to_tensor(x), tf.convert_to_tensor(y))", 2),
    ],
)
def test_where_a_loop_goes_through_it(data: str, batch: str, parts: int) -> None:
    assert list_one_batch(f"for one in {data}:\n    step(one)\n", parts) == f"for one in [{batch}]:\n    step(one)\n"


def test_what_a_function_returns() -> None:
    text = """
        def replay():
            columns = tuple(np.stack(c) for c in zip(*memory))
            return tf.data.Dataset.from_tensor_slices(columns).batch(64)

        for _ in range(100):
            for s, a in replay():
                learn(s, a)
        """
    made = list_one_batch(text)
    assert made is not None
    assert "    return [tuple(map(tf.convert_to_tensor, columns))]\n" in made


def test_what_has_a_name() -> None:
    text = f"ds = {DATA}((x, y)).batch(8)\nfirst, second = next(iter(ds))\nfor one in ds:\n    step(one)\n"
    made = list_one_batch(text)
    assert made is not None
    assert made.startswith("ds = [(tf.convert_to_tensor(x), tf.convert_to_tensor(y))]\nfirst")


@pytest.mark.parametrize(
    "text",
    [
        f"for one in {DATA}((x, y)):\n    step(one)\n",  # a row in each turn
        f"for one in {DATA}((x, y)).shuffle(8).batch(8):\n    step(one)\n",
        f"for one in {DATA}((x, y)).batch(8).map(f):\n    step(one)\n",
        f"for one in {DATA}((x, (y, z))).batch(8):\n    step(one)\n",
        f"for one in {DATA}(x).batch(8):\n    step(one)\n",  # an array, or a tuple of arrays
        f"for one in {DATA}((x, y, z)).batch(8):\n    step(one)\n",  # one of them has no parts
        f"ds = {DATA}((x, y)).batch(8)\nmodel.fit(ds)\nfor one in ds:\n    step(one)\n",
        f"ds = {DATA}((x, y)).batch(8)\nif z:\n    ds = other()\nfor one in ds:\n    step(one)\n",
        f"def made():\n    return {DATA}((x, y)).batch(8)\n\nmodel.fit(made())\n",
        f"def made():\n    return {DATA}((x, y)).batch(8)\n\nmany = [made]\n",
        f"@cached\ndef made():\n    return {DATA}((x, y)).batch(8)\n\nfor one in made():\n    step(one)\n",
        f"class M:\n    def made(self):\n        return {DATA}((x, y)).batch(8)\n\nfor one in m.made():\n    pass\n",
        "for one in other.Dataset.from_tensor_slices((x, y)).batch(8):\n    step(one)\n",
    ],
)
def test_what_stays(text: str) -> None:
    assert list_one_batch(text) is None
