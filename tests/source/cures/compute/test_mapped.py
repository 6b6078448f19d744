"""Loops over rows in a step: which can be taken at once, and that the loss and its gradient are the same."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.compute import mapped

LOSS = """import tensorflow as tf
w = tf.Variable(tf.reshape(tf.range(12.0), (6, 2)) / 12)

class Loss:
    pairs = 3

    def __call__(self, x):
        z = tf.math.l2_normalize(x, axis=1)
        n = 6
{body}

@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = Loss()(w + 1.0)
    return loss, tape.gradient(loss, w)
"""
LISTED = """        parts = []
        for i in range(n):
            s = {row}
            {more}
            parts.append({value})
        return {result}"""
SUMMED = """        total = 0.0
        for i in range(n):
            s = tf.reduce_sum(z[i] * z, axis=1)
            total += {value}
        return total / n{after}"""
ROW = "tf.reduce_sum(z[i] * z, axis=1) / 0.3"
REST = "rest = tf.concat([s[:i], s[i + 1:]], 0)"


def listed(**other: str) -> str:
    given = {"row": ROW, "more": "t = s * s", "value": "tf.reduce_mean(t)", "result": "tf.add_n(parts) / n"}
    return LOSS.format(body=LISTED.format(**(given | other)))


def summed(value: str, after: str = "") -> str:
    return LOSS.format(body=SUMMED.format(value=value, after=after))


DONE = {
    "a list, added": listed(),
    "all but one": listed(more=REST, value="tf.reduce_logsumexp(rest) - s[(i + self.pairs) % n]"),
    "all but one, inside": listed(value="tf.reduce_logsumexp(tf.concat([s[:i], s[i + 1:]], 0)) - s[(i + 1) % n]"),
    "the largest of the others": listed(more=REST, value="tf.reduce_max(rest)"),
    "a stack": listed(result="tf.reduce_sum(tf.stack(parts) ** 2)"),
    "a mean of the list": listed(result="tf.reduce_mean(parts)"),
    "Python's sum": listed(result="sum(parts)"),
    "columns": listed(row="tf.matmul(z, z, transpose_b=True)[:, 1]", value="t[i]"),
    "a sum": summed("tf.reduce_logsumexp(s)"),
}
NOT = {
    "numbers drawn": listed(more="t = s * tf.random.uniform(())"),
    "a layer": listed(more="t = self.layers[i](s)"),
    "the row's number": listed(more="t = s * i"),
    "a part that grows": listed(more="t = s[:i + 1]"),
    "the mean of the others": listed(more=REST, value="tf.reduce_mean(rest)"),
    "the others again": listed(more=REST, value="tf.reduce_max(rest) + rest[0]"),
    "the one before": listed(more="t = z[i - 1]"),
    "what is no tensor": listed(more="t = s * self.weights[i]"),
    "an unknown argument": listed(more="t = s * x[i]"),
    "a print": listed(more="print(i)"),
    "a condition": listed(more="t = s if i % 2 else -s"),
    "the list itself": listed(result="tf.add_n(parts[1:])"),
    "the last row": listed(result="tf.add_n(parts) + s[0]"),
    "a sum that is read": summed("s[0] + total"),
    "a sum and its row": summed("s[0]", " + s[1]"),
    "a longer step": listed().replace("range(n)", "range(0, n, 2)"),
}


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if " s = " in row)
    found = mapped.at_once(source, line)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize("name", NOT)
def test_other_loops_stay(name: str) -> None:
    assert changed(NOT[name]) is None


RUN = """
import json, linecache, sys
import numpy as np
for name, texts in json.load(sys.stdin).items():
    given = []
    for number, text in enumerate(texts):
        file, space = f"{name}{number}.py", {}
        open(file, "w").write(text)  # which a tf.function reads
        linecache.checkcache()
        exec(compile(text, file, "exec"), space)
        given.append([part.numpy() for part in space["step"]()])
    for one, other in zip(*given):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)
        assert np.isfinite(one).all()
print("done")
"""


@pytest.mark.tensorflow
def test_the_loss_and_its_gradient_stay(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed here")
    texts = {name: [text, changed(text) or ""] for name, text in DONE.items()}
    assert all("vectorized_map" in new for _, new in texts.values())
    given = json.dumps(texts)
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=given, text=True, capture_output=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "done" in done.stdout
