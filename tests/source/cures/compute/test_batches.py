from __future__ import annotations

import textwrap

import pytest

from slowtrain.script.fixes.models import batch_sizes
from slowtrain.script.text import edits, source_file


def raised(text: str, line: int, size: int = 8, goal: int = 64) -> str | None:
    """What becomes of a script; None where it is left to a person."""
    text = textwrap.dedent(text).lstrip("\n")
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    done = batch_sizes.enlarge_batches(parsed, [line], size, goal)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    return new if done else None


@pytest.mark.parametrize(
    ("line", "text", "old", "new"),
    [
        (1, "ds = ds.shuffle(8).batch(8, drop_remainder=True).prefetch(8)\n", "batch(8", "batch(64"),
        (3, "ds = (ds\n      .shuffle(100)\n      .batch(8)  # small\n      .prefetch(1))\n", "batch(8)", "batch(64)"),
        (1, "ds = ds.padded_batch(batch_size=8, padded_shapes=[None])\n", "size=8", "size=64"),
        (3, "n = 8\ns = len(x) // n\nmodel.fit(x, y, batch_size=n, steps_per_epoch=None)\n", "n = 8", "n = 64"),
        (2, "H, BATCH = 8, 8\nds = ds.batch(BATCH)\nd = Dense(H)\n", "8, 8", "8, 64"),
        (3, "def data(x, batch_size=8):\n    ds = make(x)\n    return ds.batch(batch_size)\ndata(x)\n", "=8", "=64"),
        (
            4,
            ("p = argparse.ArgumentParser()\np.add_argument('--batch-size', '-b', type=int, default=8)\n"
            "args = p.parse_args()\nmodel.fit(x, y, batch_size=args.batch_size)\n"),
            "default=8",
            "default=64",
        ),
        (2, "c = {'batch_size': 8, 'units': 8}\nmodel.fit(x, y, batch_size=c['batch_size'])\n", "': 8, '", "': 64, '"),
        (3, "class C:\n    batch = 8\nmodel.fit(x, y, batch_size=C.batch)\n", "batch = 8", "batch = 64"),
        (
            5,
            "@dataclass\nclass C:\n    batch_size: int = 8\nc = C()\nds = ds.batch(c.batch_size)\n",
            "int = 8",
            "int = 64",
        ),
        (
            5,
            ("class T:\n    def __init__(self, bs=8):\n        self.bs = bs\n    def run(self, ds):\n"
            "        return ds.batch(self.bs)\nT().run(ds)\n"),
            "bs=8",
            "bs=64",
        ),
        (2, "size = 8\nstep(x[:size])\nfor i in range(0, 99, size):\n    step(x[i:i + size])\ndef step(x): pass\n",
         "size = 8", "size = 64"),
        (4, "import numpy as np\nBATCH = 8\nfor _ in range(n):\n    i = np.random.randint(0, n, BATCH); step(x[i])\n",
         "BATCH = 8", "BATCH = 64"),
    ],
)  # fmt: skip
def test_the_number_is_changed_where_it_is_written(line: int, text: str, old: str, new: str) -> None:
    assert raised(text, line) == text.replace(old, new, 1)


PARTS = """
def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--whole", type=int, default={whole})
    p.add_argument("--micro", type=int, default=8)
    return p.parse_args()


def main(a):
    ds = data().batch(a.micro, drop_remainder=True)
    Learner(ds, rounds=a.whole // a.micro)


main(parse())
"""


def test_parts_of_a_larger_batch_are_raised_to_what_divides_it() -> None:
    text = PARTS.format(whole=128).lstrip()
    assert raised(text, 9) == text.replace("default=8", "default=64")
    assert raised(PARTS.format(whole=96), 9) is None
    assert raised(PARTS.format(whole=32), 9) is None


def test_all_calls_of_fit_with_the_number_follow() -> None:
    text = "model.fit(a, b, batch_size=8)\nmodel.fit(x, y, batch_size=8)\nmodel.fit(x, y, batch_size=4)\n"
    assert raised(text, 2) == text.replace("=8", "=64")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "model.fit(x, y, batch_size=16)\n"),
        (1, "ds = ds.batch(8).take(100)\n"),
        (1, "model.fit(x, y, batch_size=8, steps_per_epoch=100)\n"),
        (2, "BATCH = 8\nmodel.fit(g(BATCH), steps_per_epoch=n // BATCH, epochs=2)\n"),
        (1, "for i in range(0, n, 8):\n    step(x[i:i + 8])\n"),
        (1, "ds = ds.window(8).flat_map(lambda w: w.batch(8))\n"),
        (2, "N = 8\nds = ds.batch(N)\nlayer = Dense(N)\n"),
        (2, "B = 8\nds = ds.batch(B)\ny = x * B\n"),
        (2, "B = int(sys.argv[1])\nmodel.fit(x, batch_size=B)\n"),
        (3, "def data(b):\n    ds = x\n    return ds.batch(b)\ndata(8)\ndata(8)\n"),
        (2, "s = tf.TensorSpec((8, 3))\nmodel.fit(x, batch_size=8)\n"),
        (2, "m = LSTM(3, stateful=True)\nmodel.fit(x, batch_size=8)\n"),
        (2, "m = Input(batch_shape=(8, 3))\nmodel.fit(x, batch_size=8)\n"),
        (2, "for i in range(0, n, 8):\n    step(x[i:i+8], y[i:i+9])\n"),
        (3, "B = 8\nfor _ in range(n):\n    step(x[np.random.randint(0, n, B)])\n"),
        (2, "n = steps()\nmodel.fit(ds.batch(8), steps_per_epoch=n)\n"),
        (2, "c = {'n': 8}\nfit(Dense(c['n']), ds.batch(c['n']))\n"),
        (4, "batch_size = 8\neval_batch = 8\nprint(batch_size, eval_batch)\nmodel.fit(seq)\n"),
    ],
)
def test_it_stays_where_something_else_hangs_on_it(line: int, text: str) -> None:
    assert raised(text, line) is None


CONFIG = """
    @dataclass
    class Config:
        batch: int = 8
        hidden: int = 8
    def pipeline(cfg, x):
        return make(x).batch(cfg.batch)
    def main(cfg):
        fit(Dense(cfg.hidden), pipeline(cfg, x))
    main({made})
"""


def test_a_setting_that_is_handed_through_functions() -> None:
    text = CONFIG.format(made="Config()")
    new = raised(text, 6)
    assert new == textwrap.dedent(text).lstrip("\n").replace("batch: int = 8", "batch: int = 64")
    assert raised(CONFIG.format(made="Config(batch=other())"), 6) is None
    assert raised(CONFIG.format(made="Config()").replace("cfg.hidden", "cfg.batch"), 6) is None
    through = CONFIG.format(made="Config(batch=n)") + "    n = 8\n"
    assert raised(through, 6) == textwrap.dedent(through).lstrip("\n").replace("n = 8", "n = 64")
    assert raised(through + "    layer = Dense(n)\n", 6) is None  # the number is also that of something else
