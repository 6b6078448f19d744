"""Refine coarse depth maps with a small residual network."""
import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class Config:
    scenes: int = 4096
    side: int = 64
    batch: int = 64
    epochs: int = 10
    rate: float = 2e-4
    alarm: float = 25.0


def scenes(cfg):
    rng = np.random.default_rng(21)
    coarse = rng.random((cfg.scenes, cfg.side, cfg.side, 1), dtype=np.float32)
    fine = coarse + 0.05 * rng.standard_normal(coarse.shape, dtype=np.float32)
    ds = tf.data.Dataset.from_tensor_slices((coarse, fine)).shuffle(1024)
    return ds.batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def refiner(cfg):
    inputs = tf.keras.Input((cfg.side, cfg.side, 1))
    x = tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    for _ in range(3):
        y = tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu")(x)
        x = tf.keras.layers.Add()([x, tf.keras.layers.Conv2D(32, 3, padding="same")(y)])
    x = tf.keras.layers.Conv2D(1, 3, padding="same")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Add()([inputs, x]))


def make_update(model, optimizer):
    @tf.function
    def update(coarse, fine):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(model(coarse, training=True) - fine))
        grads = tape.gradient(loss, model.trainable_variables)
        grads, norm = tf.clip_by_global_norm(grads, 5.0)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss, norm

    return update


def main():
    cfg = Config()
    data = scenes(cfg)
    model = refiner(cfg)
    update = make_update(model, tf.keras.optimizers.Adam(cfg.rate))
    for epoch in range(cfg.epochs):
        alarms = 0
        for coarse, fine in data:
            loss, norm = update(coarse, fine)
            if norm > cfg.alarm:
                alarms += 1
        print(f"epoch {epoch}: last loss {float(loss):.4f}, clipped hard {int(alarms)} times")


if __name__ == "__main__":
    main()
