# Autoencoder for vibration windows of roller bearings (graph-mode code from our old rig).
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

WINDOW = 16384
N = 12000
BATCH = 512
STEPS = 3000


def vibration():
    rng = np.random.RandomState(2)
    t = np.arange(WINDOW, dtype=np.float32) / 12000.0
    freq = rng.uniform(30, 300, (N, 1)).astype(np.float32)
    out = np.sin(2 * np.pi * freq * t)
    out += 0.1 * rng.standard_normal(size=(N, 1)).astype(np.float32)
    return out.astype(np.float32)


def dense(x, units, name, act=None):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(x.shape[1]), units],
                            initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return act(y) if act is not None else y


def autoencoder(x):
    h = dense(x, 64, "enc1", tf.nn.relu)
    code = dense(h, 8, "code")
    h = dense(code, 64, "dec1", tf.nn.relu)
    return dense(h, WINDOW, "out")


def main():
    signals = vibration()
    start = tf.placeholder(tf.float32, signals.shape, name="signals")
    bank = tf.get_variable("bank", initializer=start, trainable=False)
    pick = tf.random_uniform([BATCH], 0, N, dtype=tf.int32)
    x = tf.gather(bank, pick)
    recon = autoencoder(x)
    loss = tf.reduce_mean(tf.square(recon - x))
    lr = tf.train.exponential_decay(1e-3, tf.train.get_or_create_global_step(), 1000, 0.7)
    train_op = tf.train.AdamOptimizer(lr).minimize(
        loss, global_step=tf.train.get_global_step())

    conf = tf.ConfigProto()
    conf.gpu_options.allow_growth = True
    with tf.Session(config=conf) as sess:
        sess.run(tf.global_variables_initializer(), feed_dict={start: signals})
        for step in range(STEPS):
            sess.run(train_op)
            if step % 500 == 0:
                print(step, sess.run(loss))


if __name__ == "__main__":
    main()
