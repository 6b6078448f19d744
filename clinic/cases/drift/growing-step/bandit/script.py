"""Contextual bandit with a neural reward model, simulated ad server."""
import keras
import numpy as np
import tensorflow as tf

ARMS, CONTEXT, ROUNDS = 8, 32, 1300


class Server:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.truth = self.rng.normal(size=(ARMS, CONTEXT)) / np.sqrt(CONTEXT)

    def visitors(self, n=64):
        return self.rng.normal(size=(n, CONTEXT)).astype("float32")

    def click(self, ctx, arm):
        p = 1 / (1 + np.exp(-(ctx * self.truth[arm]).sum(1)))
        return (self.rng.random(len(p)) < p).astype("float32")


class Memory:
    def __init__(self):
        self.ctx = np.zeros((0, CONTEXT), "float32")
        self.arm = np.zeros((0,), "int32")
        self.hit = np.zeros((0,), "float32")

    def add(self, ctx, arm, hit):
        self.ctx = np.concatenate([self.ctx, ctx])
        self.arm = np.concatenate([self.arm, arm])
        self.hit = np.concatenate([self.hit, hit])

    def draw(self, rng, n):
        weight = 0.999 ** np.arange(len(self.hit))[::-1]
        pick = rng.choice(len(self.hit), n, p=weight / weight.sum())
        return self.ctx[pick], self.arm[pick], self.hit[pick]


keras.utils.set_random_seed(0)
server, memory = Server(1), Memory()
q = keras.Sequential([keras.Input((CONTEXT,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(ARMS)])
opt = keras.optimizers.Adam(1e-3)
opt.build(q.trainable_variables)


@tf.function
def choose(ctx):
    return tf.argmax(q(ctx) + tf.random.normal([64, ARMS], stddev=0.3), 1, tf.int32)


@tf.function
def improve(ctx, arm, hit):
    with tf.GradientTape() as tape:
        logit = tf.gather(q(ctx, training=True), arm, batch_dims=1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=hit, logits=logit))
    opt.apply_gradients(zip(tape.gradient(loss, q.trainable_variables), q.trainable_variables))
    return loss


clicks = []
for r in range(ROUNDS):
    ctx = server.visitors()
    arm = choose(ctx).numpy()
    hit = server.click(ctx, arm)
    memory.add(ctx, arm, hit)
    clicks.append(hit.mean())
    loss = improve(*memory.draw(server.rng, 256))
print("click rate %.3f, loss %.4f" % (np.mean(clicks[-50:]), float(loss)))
