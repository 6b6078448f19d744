# Dating undated charters from who witnessed them.
#
# Two lists come out of the (made up) archive: the charters, each with three
# witnesses, and the persons, each with an office and years of life. There is no
# pandas on this machine, so they are put together by hand.

import collections
import random
import time

import numpy as np
import tensorflow as tf

random.seed(42)
np.random.seed(42)
tf.random.set_seed(42)

Person = collections.namedtuple("Person", "name house office born rank")
OFFICES = ["abbot", "prior", "cellarer", "almoner", "scribe", "lay"]
N_PERSONS, N_CHARTERS = 15000, 8000


def make_archive():
    persons = []
    for k in range(N_PERSONS):
        office = random.randrange(len(OFFICES))
        persons.append(Person(f"frater {k // 4}", k % 4, office, random.randint(1000, 1300), random.random()))
    by_birth = sorted(persons, key=lambda p: p.born)
    charters = []
    for n in range(N_CHARTERS):
        at = random.randrange(N_PERSONS - 60)
        witnesses = random.sample(by_birth[at : at + 60], 3)
        year = max(p.born for p in witnesses) + random.randint(20, 40)
        charters.append({"id": n, "witnesses": [(p.name, p.house) for p in witnesses], "year": year})
    random.shuffle(persons)
    return persons, charters


class Registry:
    """All persons of the archive. A name is known only together with its house."""

    def __init__(self, persons):
        self.persons = persons

    def find(self, name, house):
        return next(p for p in self.persons if p.name == name and p.house == house)

    def features(self, name, house):
        p = self.find(name, house)
        office = [0.0] * len(OFFICES)
        office[p.office] = 1.0
        return office + [(p.born - 1150) / 100.0, p.rank, p.house / 3.0]


def table(registry, charters):
    x = [[registry.features(*who) for who in charter["witnesses"]] for charter in charters]
    y = [(charter["year"] - 1150) / 100.0 for charter in charters]
    return np.array(x, "float32"), np.array(y, "float32")


def build(width=256, blocks=3):
    """A small set transformer over the three witnesses."""
    inputs = tf.keras.Input((3, len(OFFICES) + 3))
    x = tf.keras.layers.Dense(width)(inputs)
    for _ in range(blocks):
        a = tf.keras.layers.MultiHeadAttention(4, width // 4)(x, x)
        x = tf.keras.layers.LayerNormalization()(x + a)
        h = tf.keras.layers.Dense(2 * width, activation="gelu")(x)
        x = tf.keras.layers.LayerNormalization()(x + tf.keras.layers.Dense(width)(h))
    x = tf.keras.layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(x))


# ---------------------------------------------------------------- the run
start = time.time()
persons, charters = make_archive()
X, Y = table(Registry(persons), charters)
ready = time.time()
print(f"table of {X.shape} after {ready - start:.2f} s")

order = np.random.permutation(len(X))
cut = int(0.9 * len(X))
train, test = order[:cut], order[cut:]

model = build()
model.compile(optimizer=tf.keras.optimizers.Adam(3e-4), loss="huber", metrics=["mae"])
model.fit(X[train], Y[train], batch_size=64, epochs=1, validation_data=(X[test], Y[test]), verbose=2)
end = time.time()
print(f"table {ready - start:.2f} s, training {end - ready:.2f} s, all {end - start:.2f} s")
