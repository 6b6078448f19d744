"""Surrogate of a heated lid-driven cavity: (x, y, Re, Gr) -> u, v, p, T, with losses rebalanced after every epoch."""
import time

import keras
import numpy as np
import tensorflow as tf

FIELDS = ("u", "v", "p", "T")


def fields(points):
    x, y, re, gr = points.T
    bubble = np.sin(np.pi * x) ** 2 * np.sin(np.pi * y) ** 2
    u = bubble * np.cos(np.pi * y) * (1 + 0.5 * re) + y ** 8
    v = -bubble * np.cos(np.pi * x) * (1 + 0.5 * re)
    p = 0.2 * np.cos(2 * np.pi * x * (1 + re)) * y + 0.1 * gr * x
    temp = 1 - x + 0.3 * gr * np.sin(np.pi * y) * np.sin(2 * np.pi * x)
    return {k: a.astype("float32")[:, None] for k, a in zip(FIELDS, (u, v, p, temp))}


def build(width=320, depth=4):
    inp = keras.Input((4,), name="point")
    h = inp
    for i in range(depth):
        h = keras.layers.Dense(width, activation="tanh", name=f"trunk{i}")(h)
    out = {}
    for name in FIELDS:
        head = keras.layers.Dense(48, activation="tanh", name=f"head_{name}")(h)
        out[name] = keras.layers.Dense(1, name=name)(head)
    return keras.Model(inp, out)


def rebalance(errors, old, momentum=0.5):
    inverse = {k: 1.0 / (e + 1e-4) for k, e in errors.items()}
    scale = len(inverse) / sum(inverse.values())
    return {k: momentum * old[k] + (1 - momentum) * scale * inverse[k] for k in inverse}


def train(model, ds, epochs):
    optimizer = keras.optimizers.Adam(1e-3)
    weights = {k: 1.0 for k in FIELDS}
    for epoch in range(epochs):
        model.compile(
            optimizer=optimizer,
            loss={k: "mse" for k in FIELDS},
            loss_weights=weights,
            metrics={k: [keras.metrics.MeanSquaredError(name="err")] for k in FIELDS},
        )
        logs = model.fit(ds, epochs=epoch + 1, initial_epoch=epoch, verbose=0).history
        errors = {k: logs[f"{k}_err"][-1] for k in FIELDS}
        weights = rebalance(errors, weights)
        shown = "  ".join(f"{k}: {errors[k]:.4f} (w {weights[k]:.2f})" for k in FIELDS)
        print(f"epoch {epoch + 1:2d}  {shown}", flush=True)


def main(samples=30_720, batch=768, epochs=5):
    keras.utils.set_random_seed(21)
    rng = np.random.default_rng(21)
    points = rng.random((samples, 4)).astype("float32")
    ds = (tf.data.Dataset.from_tensor_slices((points, fields(points)))
          .cache().shuffle(samples).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
    model = build()
    begin = time.perf_counter()
    train(model, ds, epochs)
    elapsed = time.perf_counter() - begin
    print("WORK", epochs * samples)
    print("TRAIN_SECONDS", elapsed)


if __name__ == "__main__":
    main()
