"""Gesture classifier on event-camera time surfaces: surface kept in NumPy, downscaled patches go to a small convnet."""
import time
from dataclasses import dataclass

import keras
import numpy as np


@dataclass
class Sensor:
    height: int = 480
    width: int = 640
    events: int = 3000
    decay: float = 0.70


class TimeSurface:
    """Exponentially fading map of the last events of the sensor, one polarity per channel."""

    def __init__(self, sensor, seed):
        self.sensor = sensor
        self.rng = np.random.default_rng(seed)
        self.state = np.full((2, sensor.height, sensor.width), 1e-6, np.float32)
        self.center = np.array([sensor.height / 2, sensor.width / 2])

    def advance(self, gesture):
        s = self.sensor
        angle = self.rng.uniform(0, 2 * np.pi)
        radius = 12 + 8 * gesture
        theta = angle + self.rng.normal(0, 0.3 + 0.2 * gesture, s.events)
        ys = (self.center[0] + radius * np.sin(theta) + self.rng.normal(0, 1.5, s.events)).astype(int)
        xs = (self.center[1] + radius * np.cos(theta) + self.rng.normal(0, 1.5, s.events)).astype(int)
        self.state *= np.float32(s.decay)
        self.state[self.rng.integers(0, 2, s.events), ys % s.height, xs % s.width] += 1.0
        return self.state

    def crop(self, side=64):
        y, x = (self.center - side / 2).astype(int)
        return self.state[:, y:y + side, x:x + side].transpose(1, 2, 0).copy()


def make_model(classes):
    inp = keras.Input((64, 64, 2))
    x = keras.layers.Rescaling(0.5)(inp)
    for f in (8, 16):
        x = keras.layers.Conv2D(f, 3, strides=2, activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, keras.layers.Dense(classes)(x))


def main(steps=160, window=8, classes=5):
    rng = np.random.default_rng(5)
    surface = TimeSurface(Sensor(), seed=8)
    model = make_model(classes)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = []
    t0 = time.perf_counter()
    for step in range(steps):
        labels = rng.integers(0, classes, window)
        crops = []
        for gesture in labels:
            surface.advance(gesture)
            crops.append(surface.crop())
        losses.append(float(model.train_on_batch(np.stack(crops), labels)))
        if step % 40 == 39:
            print(f"step {step + 1} loss {np.mean(losses[-40:]):.4f} {(time.perf_counter() - t0) / (step + 1) * 1e3:.1f} ms/step")


if __name__ == "__main__":
    main()
