"""The calls that make an op, by its type, and whether the batch alone is enough for them."""

from __future__ import annotations

import pytest

from slowtrain.script.locations import line_roles
from slowtrain.script.text.source_file import parse_source

HEAD = "import tensorflow as tf\n\n\n@tf.function\ndef step(x, y):\n"
LINE = 4


def _found(body: str, *kinds: str) -> list[tuple[int, bool]]:
    source = parse_source("train.py", HEAD + body)
    assert source is not None
    return [
        (c.lineno, line_roles.needs_batch_alone(source, c)) for c in line_roles.calls_making_ops(source, LINE, kinds)
    ]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("tf.linalg.eigvals(x)", "Eig"),
        ("tf.linalg.eigh(x)", "SelfAdjointEigV2"),
        ("tf.unique(x)", "UniqueV2"),
        ("tf.unique_with_counts(x)", "UniqueWithCounts"),
        ("tf.boolean_mask(x, y)", "Where"),
        ("tf.py_function(f, [x], tf.float32)", "EagerPyFunc"),
        ("tf.image.non_max_suppression(x, y, 3)", "NonMaxSuppressionV3"),
    ],
)
def test_a_call_is_known_by_the_type_of_its_op(call: str, kind: str) -> None:
    assert [line for line, _ in _found(f"    a = tf.abs(x)\n    return {call}\n", kind)] == [7]
    assert _found(f"    return {call}\n", "MatMul") == []


def test_a_function_of_the_file_is_gone_into() -> None:
    assert _found("    return g(x)\n\n\ndef g(z):\n    return tf.unique(z)\n", "Unique") == [(10, True)]


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        ("    return tf.unique(x)\n", True),
        ("    a = tf.reshape(x, [-1])\n    b = a + 1\n    return tf.unique(b)\n", True),
        ("    return tf.unique(model(x))\n", False),
        ("    z = model(x)\n    c = tf.matmul(z, z)\n    return tf.unique(c)\n", False),
        ("    return tf.unique(weights)\n", False),
    ],
)
def test_what_hangs_on_the_model_cannot_go_into_the_input(body: str, alone: bool) -> None:
    assert [needs for _, needs in _found(body, "Unique")] == [alone]
