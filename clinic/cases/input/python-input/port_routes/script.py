"""Port embeddings from random walks over the liner network (DeepWalk style).

Ports that are served by the same loops should end up near each other.
"""
import time

import numpy as np
import tensorflow as tf
import keras

N_PORTS = 1000
N_LOOPS = 260
WALK_LENGTH = 16
REACH = 3
NEGATIVES = 5
DIM = 64
BATCH = 256


class LinerNetwork:
    def __init__(self, seed=31):
        self.rng = np.random.default_rng(seed)
        links = [set() for _ in range(N_PORTS)]
        region = np.sort(self.rng.integers(0, 20, N_PORTS))
        for _ in range(N_LOOPS):
            home = self.rng.integers(0, 20)
            at_home = np.flatnonzero(region == home)
            stops = self.rng.choice(at_home, min(9, len(at_home)), replace=False)
            far = self.rng.integers(0, N_PORTS, 2)
            loop = [int(p) for p in np.concatenate([stops, far])]
            for a, b in zip(loop, loop[1:] + loop[:1]):
                links[a].add(b)
                links[b].add(a)
        for port in range(N_PORTS):               # feeder line, nobody is cut off
            other = (port + 1) % N_PORTS
            links[port].add(other)
            links[other].add(port)
        self.neighbours = [sorted(s - {i}) for i, s in enumerate(links)]

    def walk(self, port):
        steps = self.rng.random(WALK_LENGTH - 1)
        walk = [port]
        for u in steps:
            options = self.neighbours[walk[-1]]
            walk.append(options[int(u * len(options))])
        return np.array(walk, dtype=np.int32)

    def pairs(self):
        """(port, [a port near it on the walk, NEGATIVES arbitrary ports])"""
        for start in self.rng.permutation(N_PORTS):
            walk = self.walk(int(start))
            for i in range(WALK_LENGTH):
                for j in range(max(0, i - REACH), min(WALK_LENGTH, i + REACH + 1)):
                    if i == j:
                        continue
                    noise = self.rng.integers(0, N_PORTS, NEGATIVES, dtype=np.int32)
                    yield walk[i], np.concatenate([walk[j:j + 1], noise])


class PortVectors(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Embedding(N_PORTS, DIM)
        self.outer = keras.layers.Embedding(N_PORTS, DIM)
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, inputs):
        port, candidates = inputs
        return tf.einsum("bd,bkd->bk", self.inner(port), self.outer(candidates))

    def train_step(self, data):
        with tf.GradientTape() as tape:
            scores = self(data, training=True)
            right = tf.zeros_like(scores[:, 0], dtype=tf.int32)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=right, logits=scores))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]


def main():
    keras.utils.set_random_seed(31)
    network = LinerNetwork()
    pairs = tf.data.Dataset.from_generator(
        network.pairs,
        output_signature=(
            tf.TensorSpec((), tf.int32),
            tf.TensorSpec((1 + NEGATIVES,), tf.int32),
        ),
    )
    train = pairs.shuffle(4096, seed=31).batch(BATCH).prefetch(tf.data.AUTOTUNE)

    model = PortVectors()
    model((np.zeros((1,), np.int32), np.zeros((1, 1 + NEGATIVES), np.int32)))
    model.compile(optimizer=keras.optimizers.Adam(3e-3))

    t = time.perf_counter()
    model.fit(train, epochs=2, verbose=2)
    print(f"TRAIN_SECONDS {time.perf_counter() - t:.2f}")

    table = model.inner.get_weights()[0]
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    nearest = np.argsort(-(table @ table[17]))[1:6]
    print("nearest to port 17:", nearest.tolist(), "| linked:", network.neighbours[17])


if __name__ == "__main__":
    main()
