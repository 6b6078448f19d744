"""Fraudulent ledger entries; custom loop, report once an epoch."""
import numpy as np
import tensorflow as tf
import keras


class Detector:
    def __init__(self, width=1024):
        self.net = keras.Sequential([keras.Input((300,))]
                                    + [keras.layers.Dense(width, activation="relu") for _ in range(3)]
                                    + [keras.layers.Dense(1)])
        self.opt = keras.optimizers.Adam(3e-4)
        self.opt.build(self.net.trainable_variables)
        self.loss = keras.metrics.Mean()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            out = self.net(x, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, out))
        w = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, w), w))
        self.loss.update_state(loss)


def ledger(n=12800):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 300)).astype("float32")
    y = (x[:, :1] > 1).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(256, drop_remainder=True).prefetch(2)


def main():
    keras.utils.set_random_seed(2)
    detector, entries = Detector(), ledger()
    for epoch in range(3):
        for x, y in entries:
            detector.step(x, y)
        print("epoch", epoch, "loss %.4f" % float(detector.loss.result()))
        detector.loss.reset_state()


if __name__ == "__main__":
    main()
