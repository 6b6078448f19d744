"""Guess missing birth years in a genealogy from the kin that are known."""
import gc
import random
import time

import keras
import numpy as np
import tensorflow as tf

PEOPLE = 60_000
BATCH = 128
STEPS = 64


class Person:
    def __init__(self, ident, born):
        self.ident = ident
        self.born = born
        self.parents = []
        self.notes = {"parish": ident % 311}


def build_tree(seed):
    rnd = random.Random(seed)
    people = []
    for i in range(PEOPLE):
        generation = i // 20_000
        p = Person(i, 1600 + 27 * generation + rnd.randint(-8, 8))
        if generation:
            lo = (generation - 1) * 20_000
            p.parents = [people[rnd.randrange(lo, lo + 20_000)] for _ in range(2)]
        people.append(p)
    return people


def features(person):
    mother, father = person.parents
    return [(mother.born - 1800) / 100, (father.born - 1800) / 100,
            person.notes["parish"] / 311, (mother.born - father.born) / 10]


print("reading the tree")
tree = build_tree(3)
chosen = random.Random(1).sample(tree[20_000:], BATCH * STEPS)
x = np.array([features(p) for p in chosen], dtype="float32")
y = np.array([[(p.born - 1800) / 100] for p in chosen], dtype="float32")
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).prefetch(4)

keras.utils.set_random_seed(6)
model = keras.Sequential([keras.Input((4,))]
                         + [keras.layers.Dense(512, activation="relu") for _ in range(4)]
                         + [keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(3e-4)
mean = keras.metrics.Mean()


@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(a, training=True) - b))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables),
                                  model.trainable_variables))
    mean.update_state(loss)


t0 = time.time()
for n, (a, b) in enumerate(batches, start=1):
    train_step(a, b)
    gc.collect()
    if n % 16 == 0:
        print(f"{n} steps, error {100 * mean.result().numpy():.1f} years")
        mean.reset_state()
print(f"took {time.time() - t0:.1f} s; {len(tree)} people in the tree")
