"""Metric learning on mineral spectra: an encoder, contrastive pairs, and a
round of mining for hard negatives between the fits."""
import numpy as np
import keras
from keras import layers, ops

BANDS, KINDS, PER_KIND = 128, 16, 48
ROUNDS = 4


def spectra(seed=88):
    rng = np.random.default_rng(seed)
    protos = rng.normal(size=(KINDS, BANDS))
    kind = np.repeat(np.arange(KINDS), PER_KIND)
    x = protos[kind] + 1.2 * rng.normal(size=(len(kind), BANDS))
    return x.astype("float32"), kind


def make_encoder():
    inp = keras.Input((BANDS,))
    h = layers.Dense(128, activation="relu")(inp)
    h = layers.Dense(32)(h)
    return keras.Model(inp, layers.UnitNormalization()(h), name="encoder")


def make_siamese(encoder):
    a, b = keras.Input((BANDS,)), keras.Input((BANDS,))
    gap = layers.Lambda(lambda t: ops.sum((t[0] - t[1]) ** 2, -1, keepdims=True))(
        [encoder(a), encoder(b)])
    return keras.Model([a, b], gap)


def contrastive(same, gap):
    return ops.mean(same * gap + (1 - same) * ops.relu(1.0 - gap))


def hard_negatives(encoder, x, kind, rng):
    """For every anchor the nearest of 64 candidates from other kinds."""
    candidates = rng.choice(len(x), 64, replace=False)
    gallery = encoder.predict(x[candidates], verbose=0)
    nearest = []
    for i in rng.choice(len(x), 40, replace=False):
        anchor = encoder.predict(x[i:i + 1], verbose=0)
        d = ((gallery - anchor) ** 2).sum(1)
        d[kind[candidates] == kind[i]] = np.inf
        nearest.append((i, candidates[d.argmin()]))
    return np.array(nearest)


def pairs(x, kind, hard, rng):
    first = rng.integers(0, len(x), 1024)
    second = (first // PER_KIND) * PER_KIND + rng.integers(0, PER_KIND, 1024)
    left = np.concatenate([first, np.repeat(hard[:, 0], 16)])
    right = np.concatenate([second, np.repeat(hard[:, 1], 16)])
    same = (kind[left] == kind[right]).astype("float32")
    return [x[left], x[right]], same[:, None]


keras.utils.set_random_seed(88)
rng = np.random.default_rng(88)
x, kind = spectra()
encoder = make_encoder()
siamese = make_siamese(encoder)
siamese.compile(keras.optimizers.Adam(1e-3), contrastive)
for round_ in range(ROUNDS):
    hard = hard_negatives(encoder, x, kind, rng)
    inputs, same = pairs(x, kind, hard, rng)
    h = siamese.fit(inputs, same, batch_size=64, epochs=2, verbose=0)
    print("round", round_, "loss", h.history["loss"])
