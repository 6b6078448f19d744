"""`fit` that keeps one iterator over all its epochs."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.short_epochs import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

HEAD = """\
import numpy as np
import tensorflow as tf
x = np.zeros((9, 2)); y = np.zeros(9)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(3)
"""
SLICES = "tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch"


@pytest.mark.parametrize(
    ("call", "cured"),
    [
        ("model.fit(x=ds, epochs=90)", "model.fit(x=ds.repeat(), epochs=90, steps_per_epoch=len(ds))"),
        ("model.fit(x, y)", f"model.fit({SLICES}(32).repeat(), steps_per_epoch=-(-len(x) // 32))"),
        (
            "model.fit(x=x, y=y, batch_size=4, epochs=90)",
            f"model.fit(x={SLICES}(4).repeat(), epochs=90, steps_per_epoch=-(-len(x) // 4))",
        ),
    ],
)
def test_one_iterator_lasts(call: str, cured: str) -> None:
    source = Source("train.py", f"{HEAD}{call}\n")
    assert edits.edited_text(source, fix.repeat_dataset(source, 5)) == f"{HEAD}{cured}\n"


@pytest.mark.parametrize(
    "call",
    [
        "model.fit(ds, epochs=90, steps_per_epoch=3)",
        "model.fit(x, y, validation_split=0.1)",  # takes arrays alone
        "model.fit(x, y, sample_weight=w)",
        "model.fit(x, y, shuffle=False)",
        "model.fit(x, y, 32)",
        "model.fit([x, x], y)",
        "model.fit(unknown, epochs=90)",
        "model.fit(x, y, **options)",
        "model.fit(x, y, batch_size=size())",
    ],
)
def test_what_may_mean_something_else_is_left(call: str) -> None:
    source = Source("train.py", f"{HEAD}{call}\n")
    assert fix.repeat_dataset(source, 5) == []
