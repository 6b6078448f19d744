import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

STROKE = 384


def stroke_curves(crews, per_crew, seed):
    """Force over one stroke for each crew, and the boat speed that came of it."""
    rng = np.random.default_rng(seed)
    phase = np.linspace(0, np.pi, STROKE, dtype=np.float32)
    curves, speeds = [], []
    for crew in range(crews):
        skew, strength = rng.uniform(0.7, 1.4), rng.uniform(0.8, 1.2)
        shape = strength * np.sin(phase ** skew / np.pi ** (skew - 1)).astype(np.float32)
        noise = rng.normal(0, 0.1, (per_crew, STROKE)).astype(np.float32)
        force = shape * (1 + rng.normal(0, 0.1, (per_crew, 1)).astype(np.float32)) + noise
        curves.append(force)
        speeds.append(np.cbrt(force.mean(1)))
    order = rng.permutation(crews * per_crew)
    return np.concatenate(curves)[order], np.concatenate(speeds)[order].astype(np.float32)


class BoatSpeed(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.hidden = [layers.Dense(width, activation="relu") for _ in range(3)]
        self.speed = layers.Dense(1)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.speed(x)[:, 0]


class StepDown(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch in (14, 18):
            self.model.optimizer.learning_rate.assign(self.model.optimizer.learning_rate.numpy() * 0.3)

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1:2d}  " + "  ".join(f"{k} {v:.5f}" for k, v in logs.items()))


def pipeline(x, y, batch):
    return (tf.data.Dataset.from_tensor_slices((x, y))
            .batch(batch, drop_remainder=True).cache().prefetch(tf.data.AUTOTUNE))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=22)
    args = parser.parse_args()

    keras.utils.set_random_seed(6)
    x, y = stroke_curves(crews=36, per_crew=128, seed=6)
    split = 8 * args.batch
    train, held_out = pipeline(x[:split], y[:split], args.batch), (x[split:], y[split:])
    model = BoatSpeed(args.width)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")

    start = time.perf_counter()
    model.fit(train, epochs=args.epochs, verbose=0, callbacks=[StepDown()])
    seconds = time.perf_counter() - start
    print("held out", float(model.evaluate(*held_out, batch_size=args.batch, verbose=0)))
    print("WORK", split * args.epochs)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
