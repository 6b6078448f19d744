"""What shapes and counts of arrays tell, found by going through the script, and near-misses."""

from __future__ import annotations

import pytest

from . import spotted
from .test_spots_on_the_way import DATA, LOOP, STEP

FRAMES = "rng = np.random.default_rng(1)\nbase = rng.integers(0, 255, (600, 30, 40, 3), dtype=np.uint8)\n"
FRAMES += "frames = base.repeat(8, axis=1).repeat(8, axis=2)\nalt = rng.uniform(5, 120, 600).astype('float32')\n"
FRAMES += "frames = (frames * (alt / 120)[:, None, None, None]).astype(np.uint8)\n"
SCALE = "def prepare(f, a):\n    return tf.cast(f, tf.float32) / 255.0, a\n"
SERIES = "series = np.cumsum(np.random.randn(40000, 6), 0).astype('float32')\n"
SPEC = "output_signature=(tf.TensorSpec((24, 6), tf.float32), tf.TensorSpec((), tf.float32))"
CUT = "def cut(s):\n    for i in np.random.permutation(len(s) - 30):\n        yield s[i:i + 24], s[i + 24, 0]\n"
WAVES = (
    "import glob\nMEL = tf.signal.linear_to_mel_weight_matrix(%d, 513, 16000)\ndef load(f, y):\n"
    "    w, _ = tf.audio.decode_wav(tf.io.read_file(f), 1, 16000)\n"
    "    s = tf.abs(tf.signal.stft(w[:, 0], 1024, %d))\n"
    "    return tf.math.log(tf.matmul(s, MEL) + 1e-6)[..., tf.newaxis], y\n"
    "files = sorted(glob.glob('*.wav'))\nys = np.array([name(f) for f in files])\n"
)
WAVE_DATA = f"d = {DATA}(files, ys)).map(load, 4).shuffle(99).batch(8).prefetch(2)\n"
NAMES = "NAMES = [f'a{i}' for i in range(30)] + [f'b{i}' for i in range(20)]\n"
CELLS = "class Fit:\n    def __init__(self, x):\n        self.x = x\n    def run(self):\n"
CELLS += "        for e in range(20):\n            perm = np.random.permutation(9000)\n"
CELLS += "            for i in range(0, 9000, 1024):\n"

FOUND: dict[str, list[tuple[str, int]]] = {
    "transfer/wide-input": [
        (FRAMES + f"class Feed:\n    def __init__(self, x):\n        self.x = x\n    def data(self):\n"
         f"        d = {DATA}self.x).map(lambda v: tf.image.convert_image_dtype(v, tf.float32))\n"
         "        return d.batch(64)\nnet.fit(Feed(frames).data())\n", 10),
    ],
    "input/python-input": [
        (SERIES + f"def make(s):\n    index = np.stack([np.arange(9000), np.arange(9000)], 1)\n    def windows():\n"
         "        for k in np.random.permutation(len(index)):\n            a, _ = index[k]\n"
         f"            yield s[a:a + 24], s[a, 0]\n    d = tf.data.Dataset.from_generator(windows, {SPEC})\n"
         "    return d.shuffle(99).batch(8)\nnet.fit(make(series))\n", 8),
    ],
    "input/uncached-input": [
        (WAVES % (64, 160) + WAVE_DATA + "net.fit(d, epochs=30)\n", 9),
        ("import glob\ndef load(f, y):\n    v = tf.io.decode_jpeg(tf.io.read_file(f), channels=3)\n"
         "    v = tf.image.resize_with_pad(tf.cast(v, tf.float32), 96, 96)\n    return tf.cast(v, tf.uint8), y\n"
         "files = sorted(glob.glob('*.jpg'))\nys = read(files)\n" + WAVE_DATA + "net.fit(d, epochs=30)\n", 8),
    ],
    "transfer/small-copies": [
        (NAMES + f"def make(df):\n    cols = {{c: df[c].to_numpy() for c in NAMES}}\n"
         "    rows = {c: v[order(v)] for c, v in cols.items()}\n"
         f"    return {DATA}(rows, df['y'].to_numpy())).batch(64)\nnet.fit(make(load()), epochs=3)\n", 5),
    ],
    "transfer/per-step-feed": [
        (STEP + CELLS + "                xb = tf.convert_to_tensor(self.x[perm[i:i + 1024]])\n"
         "                step(xb)\n"
         "Fit(np.log1p(np.random.poisson(np.ones((9000, 400)))).astype('float32')).run()\n", 17),
    ],
    "transfer/per-step-readback": [
        (STEP + "@tf.function\ndef both(x):\n    a, b = step(x)\n"
         "    return {'a': a, 'b': a, 'c': a, 'd': a, 'e': a}\n" + LOOP + "    stats = both(np.ones((9, 400)))\n"
         "    writer.writerow([i] + [float(v) for v in stats.values()])\n", 16),
    ],
    "input/per-element-map": [
        (("cols = {k: np.random.gamma(2.0, 3.0, 90000) for k in ('a', 'b')}\n"
         "def features(row, y):\n    return tf.stack([tf.sinh(row['a']), row['b']], -1), tf.math.asinh(y)\n"
         f"net.fit({DATA}(cols, np.zeros(90000))).map(features).batch(99))\n"), 4),
    ],
}  # fmt: skip
QUIET: dict[str, list[str]] = {
    "transfer/wide-input": [
        FRAMES + SCALE + f"net.fit({DATA}(frames, alt)).batch(64).map(prepare).map(turn))\n",
        f"net.fit({DATA}np.zeros((900, 28, 28), np.uint8)).batch(8).map(lambda f: tf.cast(f, tf.float32)))\n",
    ],
    "input/python-input": [
        SERIES + CUT + f"d = tf.data.Dataset.from_generator(lambda: cut(series[:200]), {SPEC})\nnet.fit(d.batch(8))\n",
        SERIES.replace("np.cumsum", "clean") + "def rows():\n    for f in names:\n        yield np.load(f)[:24], 0.0\n"
        f"net.fit(tf.data.Dataset.from_generator(rows, {SPEC}).batch(8))\n",
    ],
    "input/uncached-input": [
        WAVES % (256, 40) + WAVE_DATA + "net.fit(d, epochs=30)\n",
    ],
    "transfer/small-copies": [
        NAMES + "net.fit([np.zeros((90, 64, 64, 3)) for c in NAMES], y)\n",
    ],
    "transfer/per-step-feed": [
        STEP + "x = np.ones((9000, 400), 'float32')\n" + LOOP + "    x[i] = read()\n"
        "    step(tf.constant(x[np.random.permutation(1024)]))\n",
    ],
    "transfer/per-step-readback": [
        STEP + LOOP + "    loss, each = step(np.ones((9, 400)))\n"
        "    log.append([float(v) for v in (loss, loss, loss)])\n",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("cause", "text", "line"), [(c, *one) for c, every in FOUND.items() for one in every])
def test_found(cause: str, text: str, line: int) -> None:
    assert line in spotted.lines(cause, text)


@pytest.mark.parametrize(("cause", "text"), [(c, one) for c, every in QUIET.items() for one in every])
def test_left_alone(cause: str, text: str) -> None:
    assert spotted.lines(cause, text) == []
