"""Grading of fundus photographs, four grades, fine-grained network on small crops."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE, GRADES, BATCH = 64, 4, 16


def phantom_eyes(n, rng):
    grade = rng.integers(0, GRADES, n)
    img = rng.integers(60, 120, (n, SIZE, SIZE, 3)).astype("uint8")
    for i, g in enumerate(grade):
        for _ in range(3 * int(g)):
            r, c = rng.integers(4, SIZE - 8, 2)
            img[i, r:r + 4, c:c + 4, 0] = 230
    return img, grade.astype("int32")


def quarter_turns(batch, turns):
    return np.stack([np.rot90(b, k) for b, k in zip(batch, turns)])


def rotate(images, grades):
    turns = tf.random.uniform((BATCH,), 0, 4, tf.int32)
    out = tf.numpy_function(quarter_turns, [images, turns], tf.uint8)
    return tf.ensure_shape(out, (BATCH, SIZE, SIZE, 3)), grades


def dataset(images, grades):
    ds = tf.data.Dataset.from_tensor_slices((images, grades)).shuffle(len(grades), seed=0)
    ds = ds.batch(BATCH, drop_remainder=True)
    ds = ds.map(rotate, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(2)


def grader():
    inp = layers.Input((SIZE, SIZE, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(inp)
    x = layers.Conv2D(32, 4, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(96, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(128, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(128, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(128, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(GRADES)(x))


class GradeReport(keras.callbacks.Callback):
    def __init__(self, images, grades):
        super().__init__()
        self.images, self.grades = images, grades

    def on_train_end(self, logs=None):
        guess = self.model.predict(self.images, verbose=0).argmax(-1)
        for g in range(GRADES):
            print("grade", g, "recall", float(np.mean(guess[self.grades == g] == g)))


keras.utils.set_random_seed(8)
images, grades = phantom_eyes(256 + 16, np.random.default_rng(8))
train = dataset(images[16:], grades[16:])
model = grader()
model.compile(keras.optimizers.SGD(0.01, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
epochs = 4
t0 = time.perf_counter()
model.fit(train, epochs=epochs, callbacks=[GradeReport(images[:16], grades[:16])], verbose=2)
seconds = time.perf_counter() - t0
print("WORK", epochs * (256 // BATCH) * BATCH)
print("TRAIN_SECONDS %.3f" % seconds)
