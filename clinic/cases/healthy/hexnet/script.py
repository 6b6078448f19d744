"""Policy/value residual network for 13x13 Hex on recorded self-play positions."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE = 13


def make_positions(n, seed=0):
    rng = np.random.default_rng(seed)
    stones = rng.choice(3, size=(n, SIZE, SIZE), p=[0.6, 0.2, 0.2]).astype("uint8")
    move = np.empty(n, "int32")
    for i, board in enumerate(stones):
        free = np.flatnonzero(board == 0)
        move[i] = free[rng.integers(len(free))]
    lead = (stones == 1).sum((1, 2)).astype(int) - (stones == 2).sum((1, 2)).astype(int)
    return stones, move, np.sign(lead + rng.normal(0, 2, n)).astype("float32")


RNG = np.random.default_rng(1)


def turn_half(stones, move):
    """Hex looks the same after half a turn of the board"""
    flip = RNG.random(len(stones)) < 0.5
    stones = np.where(flip[:, None, None], stones[:, ::-1, ::-1], stones)
    return stones, np.where(flip, SIZE * SIZE - 1 - move, move).astype("int32")


def augment(stones, move, outcome):
    s, m = tf.numpy_function(turn_half, [stones, move], [tf.uint8, tf.int32])
    s.set_shape(stones.shape)
    m.set_shape(move.shape)
    return tf.one_hot(s, 3), {"policy": m, "value": outcome}


def residual_block(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    return layers.Activation("relu")(layers.Add()([x, y]))


def build(filters=80, blocks=4):
    inp = keras.Input((SIZE, SIZE, 3))
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(inp)
    for _ in range(blocks):
        x = residual_block(x, filters)
    p = layers.Flatten(name="policy")(layers.Conv2D(1, 1)(x))
    v = layers.GlobalAveragePooling2D()(x)
    v = layers.Dense(1, activation="tanh", name="value")(layers.Dense(32, activation="relu")(v))
    return keras.Model(inp, {"policy": p, "value": v})


class EpochTable(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(epoch + 1, {k: round(float(v), 4) for k, v in logs.items()}, flush=True)


def main():
    keras.utils.set_random_seed(13)
    n, batch, epochs = 960, 48, 2
    ds = (tf.data.Dataset.from_tensor_slices(make_positions(n))
          .shuffle(n).batch(batch, drop_remainder=True).map(augment, num_parallel_calls=2).prefetch(3))
    model = build()
    model.compile(
        optimizer=keras.optimizers.SGD(0.02, momentum=0.9),
        loss={"policy": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "value": "mse"},
    )
    t = time.perf_counter()
    model.fit(ds, epochs=epochs, verbose=0, callbacks=[EpochTable()])
    t = time.perf_counter() - t
    print("WORK", epochs * n)
    print("TRAIN_SECONDS", t)


if __name__ == "__main__":
    main()
