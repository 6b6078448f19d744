"""Eigenvalues of symmetric matrices: text in, exact text out; and the numbers stay."""

from __future__ import annotations

import pytest

from slowtrain.causes.compute.host_placed_ops import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = "import tensorflow as tf\n"
CALL = "r = tf.reduce_max(tf.abs(tf.linalg.eigvals(c)))  #@\n"


def _edited(text: str) -> str | None:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    line = next(n for n, row in enumerate(source.text.split("\n"), 1) if "#@" in row)
    found = fix.symmetric_eigenvalue_edits(source, line)
    return edits.edited_text(source, found).removeprefix(HEAD) if found else None


@pytest.mark.parametrize(
    "made",
    [
        "c = tf.matmul(z, z, transpose_a=True) / 128.0\n",
        "c = tf.matmul(z, z, transpose_b=True)\n",
        "d = tf.linalg.matmul(z, z, transpose_a=True)\nc = d * 2\n",
    ],
)
def test_a_product_by_itself_transposed_is_symmetric(made: str) -> None:
    assert _edited(made + CALL) == made + CALL.replace("eigvals", "eigvalsh")


STAYS = {
    "of two matrices": "c = tf.matmul(z, y, transpose_a=True)\n" + CALL,
    "not transposed": "c = tf.matmul(z, z)\n" + CALL,
    "both transposed": "c = tf.matmul(z, z, transpose_a=True, transpose_b=True)\n" + CALL,
    "plus something": "c = tf.matmul(z, z, transpose_a=True) + d\n" + CALL,
    "as complex numbers": "c = tf.matmul(z, z, transpose_a=True)\nr = tf.linalg.eigvals(c)  #@\n",
    "in their order": "c = tf.matmul(z, z, transpose_a=True)\nr = tf.abs(tf.linalg.eigvals(c))  #@\n",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_others_stay(text: str) -> None:
    assert _edited(text) is None


def test_the_largest_is_the_same() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")
    before = "z = tf.reshape(tf.range(12.0), (4, 3))\nc = tf.matmul(z, z, transpose_a=True) / 4.0\n" + CALL
    after = _edited(before)
    assert after is not None
    found = []
    for text in (before, after):
        names: dict[str, object] = {}
        exec(HEAD + text, names)
        found.append(float(names["r"]))  # type: ignore[arg-type]
    assert found[0] == pytest.approx(found[1], rel=1e-5)
