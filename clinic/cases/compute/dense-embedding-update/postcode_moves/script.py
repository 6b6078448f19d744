"""Where do people move next? Skip-gram style embeddings of postcodes from removal firms' logs."""
import numpy as np
import tensorflow as tf

POSTCODES = 180_000
WIDTH = 48
NEGATIVES = 8
BATCH = 512
DECAY = 1e-7


def removals(n, seed=73):
    rng = np.random.default_rng(seed)
    origin = (rng.pareto(1.2, n) * 800).astype("int64") % POSTCODES
    target = (origin + rng.integers(-40, 40, n)) % POSTCODES
    others = rng.integers(0, POSTCODES, (n, NEGATIVES))
    return origin.astype("int32"), target.astype("int32"), others.astype("int32")


class MoveModel(tf.Module):
    def __init__(self):
        super().__init__()
        init = tf.random_normal_initializer(stddev=0.1, seed=73)
        self.source = tf.Variable(init((POSTCODES, WIDTH)), name="source")
        self.target = tf.Variable(init((POSTCODES, WIDTH)), name="target")

    def lookup(self, origin, target, others):
        s = tf.nn.embedding_lookup(self.source, origin)
        t = tf.nn.embedding_lookup(self.target, target)
        o = tf.nn.embedding_lookup(self.target, others)
        return s, t, o

    def penalty(self, *rows):
        return DECAY * (tf.nn.l2_loss(self.source) + tf.nn.l2_loss(self.target))

    def loss(self, origin, target, others):
        s, t, o = self.lookup(origin, target, others)
        good = tf.reduce_sum(s * t, -1)
        bad = tf.einsum("bw,bnw->bn", s, o)
        fit = -tf.reduce_mean(tf.math.log_sigmoid(good)
                              + tf.reduce_sum(tf.math.log_sigmoid(-bad), -1))
        return fit + self.penalty(s, t, o)


tf.random.set_seed(73)
model = MoveModel()
optimizer = tf.keras.optimizers.SGD(learning_rate=50.0)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(origin, target, others):
    with tf.GradientTape() as tape:
        loss = model.loss(origin, target, others)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


data = tf.data.Dataset.from_tensor_slices(removals(BATCH * 280))
data = data.shuffle(10_000, seed=73).batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
running = []
for step, batch in enumerate(data, start=1):
    running.append(train_step(*batch))
    if step % 70 == 0:
        print("step", step, "loss", float(tf.reduce_mean(running[-70:])))
