"""Learns to forecast a bank of Lorenz systems; the simulator carries its state from batch to batch."""
import tensorflow as tf
import keras

SYSTEMS, CHUNK, DT, THIN = 48, 60, 0.01, 10


def derivative(s):
    x, y, z = s[:, 0], s[:, 1], s[:, 2]
    return tf.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z], axis=1)


def simulate(state, _):
    out = tf.TensorArray(tf.float32, CHUNK)

    def rk4(s):
        a = derivative(s)
        b = derivative(s + DT / 2 * a)
        c = derivative(s + DT / 2 * b)
        d = derivative(s + DT * c)
        return s + DT / 6 * (a + 2 * b + 2 * c + d)

    for i in tf.range(CHUNK):
        for _ in range(THIN // 2):
            state = rk4(state)
        out = out.write(i, state)
    return state, tf.transpose(out.stack(), [1, 0, 2]) / 20.0


def reproducible(ds):
    o = tf.data.Options()
    o.deterministic = True
    o.autotune.enabled = False
    o.experimental_optimization.apply_default_optimizations = False
    return ds.with_options(o)


def trajectories(steps):
    start = tf.random.stateless_normal((SYSTEMS, 3), (1, 2)) * 5.0
    ds = tf.data.Dataset.range(steps).scan(start, simulate)
    ds = ds.map(lambda t: (t[:, :-1], t[:, 1:]))
    return reproducible(ds)


def network():
    inp = keras.Input((CHUNK - 1, 3))
    x = keras.layers.GRU(24, return_sequences=True)(inp)
    return keras.Model(inp, keras.layers.Dense(3)(x))


net = network()
opt = keras.optimizers.Adam(3e-3)
opt.build(net.trainable_variables)


@tf.function
def learn(x, y):
    with tf.GradientTape() as tape:
        err = tf.reduce_mean(tf.square(net(x, training=True) - y))
    opt.apply(tape.gradient(err, net.trainable_variables), net.trainable_variables)
    return err


for n, (x, y) in enumerate(trajectories(240)):
    err = learn(x, y)
    if n % 40 == 39:
        print("batch", n + 1, "mse", float(err), flush=True)
