# Roguelike level difficulty: a critic network for generated caves.
# Levels are grown with the usual 4-5 cellular automaton from random rock; the index of a
# level sets how much rock it starts from, so neighbours in the list look alike.

import time

import keras
import numpy as np
import tensorflow as tf

SIZE = 32
LEVELS = 4000
GENERATIONS = 5
BATCH = 64
BATCHES_PER_EPOCH = 20
EPOCHS = 6

keras.utils.set_random_seed(42)


def grow_cave(index):
    rock = 0.38 + 0.14 * tf.cast(index, tf.float32) / LEVELS
    grid = tf.cast(tf.random.uniform((1, SIZE, SIZE, 1)) < rock, tf.float32)
    for _ in range(GENERATIONS):
        padded = tf.pad(grid, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=1.0)
        around = 9.0 * tf.nn.avg_pool2d(padded, 3, 1, "VALID")
        grid = tf.cast(around > 4.5, tf.float32)
    return grid[0], (rock - 0.45) * 20.0


def cave_batches():
    levels = tf.data.Dataset.range(LEVELS)
    levels = levels.map(grow_cave, num_parallel_calls=tf.data.AUTOTUNE)
    levels = levels.shuffle(LEVELS)
    levels = levels.batch(BATCH, drop_remainder=True)
    levels = levels.take(BATCHES_PER_EPOCH)
    return levels.prefetch(tf.data.AUTOTUNE)


def cave_critic():
    return keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(12, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Conv2D(24, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1),
        ]
    )


def show(level):
    for row in np.asarray(level)[::4, ::2, 0]:
        print("".join("#" if cell > 0.5 else "." for cell in row))


print("an easy level:")
show(grow_cave(tf.constant(0, tf.int64))[0])
print("a hard one:")
show(grow_cave(tf.constant(LEVELS - 1, tf.int64))[0])

caves = cave_batches()
critic = cave_critic()
critic.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse", metrics=["mae"])

clock = time.perf_counter()
history = critic.fit(caves, epochs=EPOCHS, verbose=2)
clock = time.perf_counter() - clock

print("mean error of the difficulty: %.3f" % history.history["mae"][-1])
print("WORK", EPOCHS * BATCHES_PER_EPOCH * BATCH)
print("TRAIN_SECONDS %.3f" % clock)
