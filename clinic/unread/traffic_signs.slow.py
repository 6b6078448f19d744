"""Traffic sign classifier with a look at the hardest recent examples."""
import argparse
import collections

import numpy as np
import tensorflow as tf

SIDE = 64
SIGNS = 43
KEEP = 32


def signs(count, batch_size):
    rng = np.random.default_rng(80)
    images = rng.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    labels = rng.integers(0, SIGNS, count).astype(np.int32)
    ds = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(4096)
    return ds.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def sign_net():
    net = tf.keras.Sequential([tf.keras.Input((SIDE, SIDE, 3))])
    net.add(tf.keras.layers.Rescaling(1 / 255))
    for width in (32, 64, 128):
        net.add(tf.keras.layers.Conv2D(width, 3, padding="same", activation="relu"))
        net.add(tf.keras.layers.MaxPooling2D())
    net.add(tf.keras.layers.GlobalAveragePooling2D())
    net.add(tf.keras.layers.Dense(SIGNS))
    return net


class Session:
    def __init__(self, net, rate):
        self.net = net
        self.optimizer = tf.keras.optimizers.Adam(rate)
        self.recent = []
        self.seen = collections.Counter()

    @tf.function
    def step(self, images, labels):
        with tf.GradientTape() as tape:
            logits = self.net(images, training=True)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(each)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        return each

    def epoch(self, data):
        for images, labels in data:
            each = self.step(images, labels)
            self.recent.append((images, labels, each))
            self.seen["steps"] += 1

    def hardest(self):
        window = list(self.recent)[-KEEP:]
        worst = max(window, key=lambda item: float(tf.reduce_max(item[2])))
        return int(worst[1][int(tf.argmax(worst[2]))])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()

    data = signs(args.count, 256)
    session = Session(sign_net(), 1e-3)
    for epoch in range(args.epochs):
        session.epoch(data)
        print(f"epoch {epoch}: {session.seen['steps']} steps, hardest sign {session.hardest()}")


if __name__ == "__main__":
    main()
