"""Classify six-band field patches into crops, with a cosine learning rate per epoch."""
import math
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CROPS = ["wheat", "maize", "rape", "beet", "barley", "fallow"]
BANDS, SIDE = 6, 32


def make_fields(n, seed=21):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CROPS), n).astype(np.int32)
    signature = rng.uniform(0.1, 0.9, (len(CROPS), BANDS)).astype(np.float32)
    rows = np.sin(np.arange(SIDE, dtype=np.float32) * 0.9)[None, :, None, None]
    patches = signature[labels][:, None, None, :] + 0.1 * rows
    patches = patches + rng.normal(0, 0.15, (n, SIDE, SIDE, BANDS)).astype(np.float32)
    return patches.astype(np.float32), labels


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    return layers.MaxPooling2D()(x)


def build_network():
    inputs = layers.Input((SIDE, SIDE, BANDS))
    x = inputs
    for filters in (24, 48, 64):
        x = conv_block(x, filters)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(64, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(len(CROPS))(x))


class CosineRate:
    def __init__(self, peak, floor, epochs):
        self.peak, self.floor, self.epochs = peak, floor, epochs

    def __call__(self, epoch):
        return self.floor + 0.5 * (self.peak - self.floor) * (1 + math.cos(math.pi * epoch / self.epochs))


class FieldTrainer:
    def __init__(self, network, rate, epochs):
        self.network, self.rate, self.epochs = network, rate, epochs
        self.criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.history = []

    def make_update(self, learning_rate):
        optimizer = keras.optimizers.SGD(learning_rate)

        @tf.function
        def update(patches, labels):
            with tf.GradientTape() as tape:
                logits = self.network(patches, training=True)
                loss = self.criterion(labels, logits)
            weights = self.network.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            hits = tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels)
            return loss, tf.reduce_mean(tf.cast(hits, tf.float32))

        return update

    def one_epoch(self, update, batches):
        losses, accuracies = [], []
        for patches, labels in batches:
            loss, accuracy = update(patches, labels)
            losses.append(loss)
            accuracies.append(accuracy)
        return float(tf.add_n(losses)) / len(losses), float(tf.add_n(accuracies)) / len(losses)

    def run(self, batches):
        for epoch in range(self.epochs):
            update = self.make_update(self.rate(epoch))
            self.history.append(self.one_epoch(update, batches))
            if epoch % 4 == 0:
                loss, accuracy = self.history[-1]
                print(f"epoch {epoch:2d}  loss {loss:.3f}  accuracy {accuracy:.3f}")


def main():
    keras.utils.set_random_seed(8)
    batch, epochs, fields = 32, 16, 512
    patches, labels = make_fields(fields)
    batches = (tf.data.Dataset.from_tensor_slices((patches, labels))
               .batch(batch, drop_remainder=True).cache().prefetch(tf.data.AUTOTUNE))
    trainer = FieldTrainer(build_network(), CosineRate(0.1, 0.001, epochs), epochs)
    started = time.perf_counter()
    trainer.run(batches)
    took = time.perf_counter() - started
    print("WORK", epochs * fields)
    print(f"TRAIN_SECONDS {took:.3f}")


if __name__ == "__main__":
    main()
