"""Ice halos around the sun: which crystals make this sky? Bare TensorFlow, no Keras."""

import time

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(22)
ANGLES, CRYSTALS, BATCH, STEPS = 512, 8, 192, 330


def skies(count):
    """Brightness along an arc; every crystal kind adds its ring (22 degrees, 46 degrees, sundogs, ...)."""
    share = rng.dirichlet(np.ones(CRYSTALS), count)
    arc = np.linspace(0, 60, ANGLES)
    where = np.linspace(9, 52, CRYSTALS)
    rings = np.exp(-(((arc[None] - where[:, None]) / 2.5) ** 2))
    glare = rng.uniform(0.5, 2.0, (count, 1)) * np.exp(-arc / 12)
    return share @ rings + glare + 0.05 * rng.normal(size=(count, ANGLES)), share


def glorot(rows, columns):
    limit = np.sqrt(6.0 / (rows + columns))
    return rng.uniform(-limit, limit, size=(rows, columns))


class Linear(tf.Module):
    def __init__(self, rows, columns, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(glorot(rows, columns), name="w")
        self.b = tf.Variable(np.zeros(columns), name="b")

    def __call__(self, x):
        return tf.matmul(tf.cast(x, self.w.dtype), self.w) + self.b


class Residual(tf.Module):
    def __init__(self, width, name=None):
        super().__init__(name=name)
        self.up = Linear(width, 2 * width)
        self.down = Linear(2 * width, width)

    def __call__(self, x):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        scaled = centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + 1e-6)
        return x + self.down(tf.nn.relu(self.up(scaled)))


class HaloNet(tf.Module):
    def __init__(self, width=384, depth=3, name=None):
        super().__init__(name=name)
        self.first = Linear(ANGLES, width)
        self.blocks = [Residual(width) for _ in range(depth)]
        self.last = Linear(width, CRYSTALS)

    def __call__(self, sky):
        x = self.first(sky)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Momentum(tf.Module):
    def __init__(self, variables, rate=0.002, keep=0.9):
        super().__init__()
        self.rate, self.keep = rate, keep
        self.slots = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, variables, grads):
        for v, g, s in zip(variables, grads, self.slots):
            s.assign(self.keep * s + g)
            v.assign_sub(self.rate * s)


net = HaloNet()
optimizer = Momentum(net.trainable_variables)


@tf.function
def train_step(sky, share):
    with tf.GradientTape() as tape:
        scores = net(sky)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.cast(share, scores.dtype), scores))
    optimizer.apply(net.trainable_variables, tape.gradient(loss, net.trainable_variables))
    return loss


if __name__ == "__main__":
    x, y = skies(6000)
    x, y = x.astype("float32"), y.astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(6000, seed=1).repeat().batch(BATCH).prefetch(2)
    began = time.perf_counter()
    for step, (sky, share) in enumerate(data.take(STEPS)):
        loss = train_step(sky, share)
        if step == 9:
            warm = time.perf_counter()
        if step % 60 == 0:
            print(f"step {step:4d}  loss {loss.numpy():.5f}")
    now = time.perf_counter()
    print(f"trained in {now - began:.2f} s, {(now - warm) / (STEPS - 10) * 1e3:.1f} ms a step")
