"""Ice-core layer dating with 'dataset cartography': remembers how sure the net was of each core section."""
import time
from collections import defaultdict

import numpy as np
import tensorflow as tf
from tensorflow import keras


class Cartographer:
    def __init__(self):
        self.trail = defaultdict(list)

    def visit(self, section, surety):
        for who, how in zip(section, surety):
            self.trail[int(who)].append(float(how))

    def murkiest(self, k):
        spread = {who: np.std(v) for who, v in self.trail.items()}
        return sorted(spread, key=spread.get)[-k:]


class Dater(keras.Model):
    def __init__(self, layers_):
        super().__init__()
        self.body = keras.Sequential([
            keras.layers.Conv1D(64, 7, strides=2, activation="relu"),
            keras.layers.Conv1D(96, 5, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
        ])
        self.out = keras.layers.Dense(layers_)

    def call(self, x, training=False):
        return self.out(self.body(x, training=training))


class Campaign:
    def __init__(self, sections=6400, depth=192, eras=10, batch=128):
        g = np.random.default_rng(2)
        era = g.integers(0, eras, sections)
        core = np.sin(np.arange(depth)[None] * (0.1 + 0.05 * era[:, None])) + g.normal(size=(sections, depth))
        self.batch, self.sections = batch, sections
        self.ds = (tf.data.Dataset.from_tensor_slices(
            (np.arange(sections), core[..., None].astype("float32"), era.astype("int32")))
            .batch(batch, drop_remainder=True).cache().prefetch(4))
        self.net = Dater(eras)
        self.net(tf.zeros([1, depth, 1]))
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)
        self.map = Cartographer()

    @tf.function
    def drill(self, core, era):
        with tf.GradientTape() as tape:
            logits = self.net(core, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(era, logits))
        v = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss, tf.gather(tf.nn.softmax(logits), era, batch_dims=1)

    def summer(self):
        for section, core, era in self.ds:
            loss, surety = self.drill(core, era)
            self.map.visit(section, surety)
        return loss


c = Campaign()
c.summer()
t0 = time.perf_counter()
SUMMERS = 9
for year in range(SUMMERS):
    loss = c.summer()
print("loss %.3f" % float(loss), "murky:", c.map.murkiest(3))
t1 = time.perf_counter()
print("WORK", SUMMERS * c.sections // c.batch * c.batch)
print("TRAIN_SECONDS", round(t1 - t0, 3))
