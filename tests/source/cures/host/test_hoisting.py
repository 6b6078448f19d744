"""What a loop repeats for nothing is taken out of it."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.text import edits, source_file

# Name: the script before (with HERE at the line that a run named), and after; None where nothing may be edited.
CASES: dict[str, tuple[str, str | None]] = {
    "move_collect_after_loop 1": (
        """\
import gc
for epoch in range(3):
    for x, y in ds:
        step(x, y)
        gc.collect()  # HERE
    print(epoch)
""",
        """\
import gc
for epoch in range(3):
    for x, y in ds:
        step(x, y)
    gc.collect()  # HERE
    print(epoch)
""",
    ),
    "move_collect_after_loop 9": (  # a method that a loop elsewhere calls
        """\
import gc
class Feeder:
    def release(self):
        self.held.clear()
        gc.collect()  # HERE
""",
        """\
import gc
class Feeder:
    def release(self):
        self.held.clear()
        # HERE
""",
    ),
    "move_collect_after_loop 10": (
        """\
import gc
class Tidy:
    def __exit__(self, *exc):
        if self.entered % 2 == 0:
            gc.collect()  # HERE
""",
        """\
import gc
class Tidy:
    def __exit__(self, *exc):
        if self.entered % 2 == 0:
            pass  # HERE
""",
    ),
    "move_collect_after_loop 11": (  # nothing else collects
        """\
import gc
gc.disable()
class Feeder:
    def release(self):
        self.held.clear()
        gc.collect()  # HERE
""",
        None,
    ),
    "move_collect_after_loop 12": (
        """\
import gc
def free():
    return gc.collect()  # HERE
""",
        None,
    ),
    "move_collect_after_loop 2": (
        """\
import gc
for x, y in ds:
    gc.collect()  # HERE
    step(x, y)
done()
""",
        """\
import gc
for x, y in ds:
    # HERE
    step(x, y)
gc.collect()
done()
""",
    ),
    "move_collect_after_loop 3": (
        """\
from gc import collect
for x in ds:
    if step(x):
        collect()  # HERE
    print(x)
""",
        """\
from gc import collect
for x in ds:
    if step(x):
        pass  # HERE
    print(x)
collect()
""",
    ),
    "move_collect_after_loop 4": (
        """\
import gc
class Tidy(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        gc.collect()  # HERE
""",
        """\
import gc
class Tidy(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass  # HERE
""",
    ),
    "move_collect_after_loop 5": (
        """\
import gc
for epoch in range(3):
    for x, y in ds:
        step(x, y)
gc.collect()  # HERE
""",
        None,
    ),
    "move_collect_after_loop 6": (
        """\
for x in mails:
    n = mailbox.collect()  # HERE
    print(n)
""",
        None,
    ),
    "move_collect_after_loop 7": (
        """\
import gc
for x in ds:
    step(x); gc.collect()  # HERE
print(1)
""",
        None,
    ),
    "freeze_before_loop 1": (
        """\
import numpy as np
model = build()
for epoch in range(3):
    for x, y in ds:
        step(x, y)  # HERE
""",
        """\
import numpy as np
import gc
model = build()
gc.collect()
gc.freeze()
for epoch in range(3):
    for x, y in ds:
        step(x, y)  # HERE
""",
    ),
    "freeze_before_loop 2": (
        """\
import gc
def main():
    model = build()
    model.fit(x, y)  # HERE
""",
        """\
import gc
def main():
    model = build()
    gc.collect()
    gc.freeze()
    model.fit(x, y)  # HERE
""",
    ),
    "freeze_before_loop 3": (
        """\
import gc
gc.freeze()
model.fit(x, y)  # HERE
""",
        None,
    ),
    "assign_learning_rate 1": (
        """\
model.compile(keras.optimizers.SGD(0.1), "mse")
for stage in range(10):
    rate = 0.1 * 0.8 ** stage
    model.compile(keras.optimizers.SGD(rate), "mse")  # HERE
    model.fit(x, y)
""",
        """\
model.compile(keras.optimizers.SGD(0.1), "mse")
for stage in range(10):
    rate = 0.1 * 0.8 ** stage
    model.optimizer.learning_rate = rate  # HERE
    model.fit(x, y)
""",
    ),
    "assign_learning_rate 2": (
        """\
model.compile(keras.optimizers.Adam(0.1), "mse")
for stage in range(10):
    model.compile(keras.optimizers.Adam(0.1 / stage), "mse")  # HERE
""",
        None,
    ),
    "assign_learning_rate 3": (
        """\
model.compile(keras.optimizers.SGD(0.1), "mae")
for stage in range(10):
    model.compile(keras.optimizers.SGD(0.1 / stage), "mse")  # HERE
""",
        None,
    ),
    "assign_learning_rate 4": (
        """\
for stage in range(10):
    model = build()
    model.compile(keras.optimizers.SGD(0.1 / stage), "mse")  # HERE
""",
        None,
    ),
    "assign_learning_rate 5": (
        """\
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
for stage in range(10):
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")  # HERE
""",
        None,
    ),
    "assign_learning_rate 6": (
        """\
model.compile(keras.optimizers.SGD(0.1), "mse")
for rate in (0.1, 0.01):
    model.compile(keras.optimizers.SGD(CosineDecay(rate)), "mse")  # HERE
""",
        None,
    ),
}


def line(text: str) -> int:
    rows = text.splitlines()
    return next((i for i, row in enumerate(rows, 1) if "HERE" in row), 0)


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    before, after = CASES[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    found = getattr(moved_statements, name.split(maxsplit=1)[0])(text, line(before))
    assert (edits.edited_text(text, found) if found else None) == after
