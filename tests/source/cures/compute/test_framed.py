"""A loop over windows with one kernel becomes a convolution, where it is one."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.compute import framed

CALL = """
import tensorflow as tf

def call(x, w, b, frames, width):
    outs = []
    for t in range(frames):
        window = x[:, t:t + width, :]
        outs.append(tf.einsum("bkd,kdu->bu", window, w) + b)
    return tf.nn.relu(tf.stack(outs, axis=1))
"""


def cured(text: str) -> str | None:
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    made = framed.convolved(parsed, text[: text.index("for t in")].count("\n") + 1)
    return edits.edited_text(parsed, made) if made else None


def test_it_is_one_convolution() -> None:
    assert cured(CALL) == (
        "\nimport tensorflow as tf\n\ndef call(x, w, b, frames, width):\n"
        '    outs = tf.nn.conv1d(x[:, :frames + width - 1], w, stride=1, padding="VALID") + b\n'
        "    return tf.nn.relu(outs)\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("        window = x[:, t:t + width, :]\n", "", id="cut where it is used"),
        pytest.param(" + b)", ")", id="no bias"),
        pytest.param('tf.einsum("bkd,kdu->bu", window, w) + b', 'tf.nn.tanh(tf.einsum("nij,ijo->no", window, w) + b)',
                     id="an activation, other letters"),
    ],
)  # fmt: skip
def test_other_ways_to_write_it(old: str, new: str) -> None:
    text = CALL.replace(old, new)
    if not new:
        text = text.replace("window, w", "x[:, t:t + width], w")
    assert text != CALL
    after = cured(text)
    assert after is not None
    assert "for t" not in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("t:t + width", "t:t + t", id="windows of another length"),
        pytest.param("t:t + width", "2 * t:2 * t + width", id="a stride"),
        pytest.param("bkd,kdu->bu", "bkd,kdu->bdu", id="no sum over channels"),
        pytest.param("window, w)", "window, w[t])", id="a kernel for each place"),
        pytest.param(" + b)", " * t)", id="a turn's own factor"),
        pytest.param("axis=1", "axis=0", id="stacked elsewhere"),
        pytest.param("    return", "    outs.pop()\n    return", id="its list is used again"),
        pytest.param("    return", "        x = x * 0.9\n    return", id="the turns go on from each other"),
    ],
)
def test_it_stays_where_it_is_none(old: str, new: str) -> None:
    text = CALL.replace(old, new)
    assert text != CALL
    assert cured(text) is None


def test_both_give_the_same() -> None:
    tf = pytest.importorskip("tensorflow")
    after = cured(CALL)
    assert after is not None
    given = (tf.random.normal((4, 30, 6)), tf.random.normal((5, 6, 8)), tf.random.normal((8,)), 26, 5)
    shown = []
    for text in (CALL, after):
        names: dict[str, object] = {}
        exec(compile(text, "train.py", "exec"), names)
        shown.append(names["call"](*given))  # type: ignore[operator]
    assert shown[0].shape == shown[1].shape == (4, 26, 8)
    assert shown[0].numpy() == pytest.approx(shown[1].numpy(), abs=1e-4)
