"""Reading hand-keyed telegraph code: which of 26 letters is in this clip?

Pilot for the museum's exhibit: two epochs on simulated keying, to see whether a
small transformer over the tone envelope can tell letters from a shaky hand at
all before we collect real recordings.
"""
import time
from dataclasses import dataclass

import numpy as np
import keras
from keras import layers

MORSE = {
    "a": ".-", "b": "-...", "c": "-.-.", "d": "-..", "e": ".", "f": "..-.", "g": "--.",
    "h": "....", "i": "..", "j": ".---", "k": "-.-", "l": ".-..", "m": "--", "n": "-.",
    "o": "---", "p": ".--.", "q": "--.-", "r": ".-.", "s": "...", "t": "-", "u": "..-",
    "v": "...-", "w": ".--", "x": "-..-", "y": "-.--", "z": "--..",
}
LETTERS = sorted(MORSE)


@dataclass
class Config:
    frames: int = 24
    bands: int = 4
    dim: int = 48
    heads: int = 4
    blocks: int = 5
    batch: int = 32
    n_train: int = 1536
    n_valid: int = 256
    epochs: int = 2


def key_clip(letter, cfg, rng):
    """Envelope of one letter in a few bands; dots and dashes of uneven length."""
    envelope = np.zeros(cfg.frames * 2, dtype="float32")
    at = rng.integers(0, 4)
    for mark in MORSE[letter]:
        length = max(1, int(round((1.4 if mark == "." else 3.6) * rng.uniform(0.7, 1.3))))
        envelope[at:at + length] = 1.0
        at += length + rng.integers(1, 3)
    envelope = envelope[:cfg.frames]
    gain = rng.uniform(0.5, 1.0, size=cfg.bands)
    clip = envelope[:, None] * gain + rng.normal(0.0, 0.15, size=(cfg.frames, cfg.bands))
    return clip.astype("float32")


def recordings(n, cfg, rng):
    y = rng.integers(0, len(LETTERS), size=n)
    x = np.stack([key_clip(LETTERS[i], cfg, rng) for i in y])
    return x, y.astype("int32")


def block(x, cfg):
    h = layers.LayerNormalization()(x)
    h = layers.MultiHeadAttention(cfg.heads, cfg.dim // cfg.heads)(h, h)
    x = layers.Add()([x, h])
    h = layers.LayerNormalization()(x)
    h = layers.Dense(2 * cfg.dim, activation="gelu")(h)
    h = layers.Dense(cfg.dim)(h)
    return layers.Add()([x, h])


def make_reader(cfg):
    clip = keras.Input((cfg.frames, cfg.bands))
    x = layers.Conv1D(cfg.dim, 3, padding="same")(clip)
    for _ in range(cfg.blocks):
        x = block(x, cfg)
    x = layers.LayerNormalization()(x)
    x = layers.Flatten()(x)
    return keras.Model(clip, layers.Dense(len(LETTERS))(x), name="telegraph_reader")


if __name__ == "__main__":
    cfg = Config()
    keras.utils.set_random_seed(1844)
    rng = np.random.default_rng(1844)
    train = recordings(cfg.n_train, cfg, rng)
    valid = recordings(cfg.n_valid, cfg, rng)

    t0 = time.perf_counter()
    reader = make_reader(cfg)
    reader.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=True,
    )
    reader.fit(*train, validation_data=valid, batch_size=cfg.batch, epochs=cfg.epochs, verbose=2)
    seconds = time.perf_counter() - t0

    print("parameters", reader.count_params())
    print(f"TRAIN_SECONDS {seconds:.2f}")
