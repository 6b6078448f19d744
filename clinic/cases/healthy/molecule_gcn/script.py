"""Graph network over dense adjacency matrices of molecules, trained with fit and a custom train_step."""
import time
import keras
import numpy as np
import tensorflow as tf

ATOMS, CHANNELS = 48, 256


class GraphConv(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.dense = keras.layers.Dense(units, activation="relu")

    def call(self, h, adj):
        return self.dense(tf.matmul(adj, h))


class MoleculeNet(keras.Model):
    def __init__(self, layers=4):
        super().__init__()
        self.convs = [GraphConv(CHANNELS) for _ in range(layers)]
        self.out = keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="loss")

    def call(self, inputs):
        h, adj = inputs
        for conv in self.convs:
            h = conv(h, adj)
        return self.out(tf.reduce_mean(h, axis=1))

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        inputs, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(inputs, training=True) - y))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def molecules(n):
    rng = np.random.default_rng(9)
    bonds = rng.random((n, ATOMS, ATOMS)) < 0.06
    adj = (bonds | bonds.transpose(0, 2, 1) | np.eye(ATOMS, dtype=bool)).astype("float32")
    adj /= adj.sum(2, keepdims=True)
    kinds = rng.integers(0, 10, (n, ATOMS))
    h = np.eye(10, dtype="float32")[kinds]
    y = (adj @ h)[:, :, 3].std(1, keepdims=True)
    return h, adj, y.astype("float32")


keras.utils.set_random_seed(9)
h, adj, y = molecules(2048)
ds = tf.data.Dataset.from_tensor_slices(((h, adj), y)).batch(128).cache().shuffle(16, seed=0).prefetch(2)
model = MoleculeNet()
model.compile(optimizer=keras.optimizers.Adam(1e-3))
t0 = time.time()
model.fit(ds, epochs=6, verbose=2)
print("WORK", 6 * len(y))
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
