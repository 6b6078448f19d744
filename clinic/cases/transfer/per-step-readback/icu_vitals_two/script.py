"""Deterioration score from two days of vital signs, with a table of each patient's loss."""
import time
from collections import defaultdict

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class Cohort:
    hours, signals = 48, 16

    def __init__(self, patients, seed):
        rng = np.random.default_rng(seed)
        self.ids = (100000 + rng.permutation(patients)).astype(np.int64)
        self.outcome = rng.integers(0, 2, patients).astype(np.float32)
        drift = np.linspace(0, 1, self.hours, dtype=np.float32)[None, :, None]
        self.vitals = rng.normal(0, 1, (patients, self.hours, self.signals)).astype(np.float32)
        self.vitals += 0.4 * drift * self.outcome[:, None, None]

    def batches(self, size):
        data = tf.data.Dataset.from_tensor_slices((self.ids, self.vitals, self.outcome))
        return data.batch(size, drop_remainder=True).cache().prefetch(2)


class VitalsEncoder(keras.Model):
    def __init__(self, filters=128):
        super().__init__()
        self.early = layers.Conv1D(filters, 3, padding="same", activation="relu")
        self.late = layers.Conv1D(filters, 3, padding="same", activation="relu")
        self.pool = layers.GlobalAveragePooling1D()
        self.score = layers.Dense(1)

    def call(self, x):
        return tf.squeeze(self.score(self.pool(self.late(self.early(x)))), -1)


class PatientLedger:
    """Remembers the course of each patient's loss, to review the hard ones afterwards."""

    def __init__(self):
        self.course = defaultdict(list)

    def record(self, ids, losses):
        for patient, loss in zip(ids, losses):
            self.course[int(patient)].append(float(loss))

    def hardest(self, n):
        return sorted(self.course, key=lambda p: self.course[p][-1], reverse=True)[:n]


class Experiment:
    def __init__(self, cohort, batch_size=128, epochs=10, rate=1e-3):
        self.data = cohort.batches(batch_size)
        self.batch_size, self.epochs = batch_size, epochs
        self.encoder = VitalsEncoder()
        self.encoder(tf.zeros((1, cohort.hours, cohort.signals)))
        self.optimizer = keras.optimizers.Adam(rate)
        self.optimizer.build(self.encoder.trainable_variables)
        self.ledger = PatientLedger()

    @tf.function
    def train_batch(self, vitals, outcome):
        with tf.GradientTape() as tape:
            logits = self.encoder(vitals, training=True)
            each = tf.nn.sigmoid_cross_entropy_with_logits(outcome, logits)
            loss = tf.reduce_mean(each)
        variables = self.encoder.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, each

    def run(self):
        seen = 0
        for epoch in range(self.epochs):
            for ids, vitals, outcome in self.data:
                loss, each = self.train_batch(vitals, outcome)
                self.ledger.record(ids, each)
                seen += self.batch_size
            print(f"epoch {epoch + 1:2d}/{self.epochs}  loss {float(loss):.4f}")
        return seen


def main():
    keras.utils.set_random_seed(17)
    experiment = Experiment(Cohort(patients=1920, seed=17))
    t0 = time.perf_counter()
    seen = experiment.run()
    seconds = time.perf_counter() - t0
    print("to review:", experiment.ledger.hardest(5))
    print("WORK", seen)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
