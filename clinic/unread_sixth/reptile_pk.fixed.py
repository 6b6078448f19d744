"""Reptile on one-compartment pharmacokinetic curves: adapt to a new patient from one sampled curve."""
import argparse

import tensorflow as tf
from tensorflow import keras


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--meta-iters", type=int, default=4000)
    p.add_argument("--inner-steps", type=int, default=32)
    p.add_argument("--inner-lr", type=float, default=0.02)
    p.add_argument("--meta-lr", type=float, default=0.5)
    p.add_argument("--samples", type=int, default=256)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--report", type=int, default=250)
    return p.parse_args()


def make_net(width):
    net = keras.Sequential([
        keras.Input((1,)),
        keras.layers.Dense(width, activation="tanh"),
        keras.layers.Dense(width, activation="tanh"),
        keras.layers.Dense(1),
    ])
    return net


def sample_patient(n):
    ka = tf.random.uniform((), 0.6, 2.5)
    ke = tf.random.uniform((), 0.05, 0.4)
    vol = tf.random.uniform((), 0.6, 1.6)
    t = tf.random.uniform((n, 1), 0.0, 24.0)
    conc = ka / (vol * (ka - ke)) * (tf.exp(-ke * t) - tf.exp(-ka * t))
    noisy = conc + tf.random.normal((n, 1), 0.0, 0.02)
    return t / 12.0 - 1.0, noisy


class Reptile:
    def __init__(self, args):
        self.args = args
        self.meta = make_net(args.width)
        self.mse = keras.losses.MeanSquaredError()
        self.last = keras.metrics.Mean()
        self.learner = make_net(args.width)
        self.opt = keras.optimizers.SGD(args.inner_lr)
        self.opt.build(self.learner.trainable_variables)

    @tf.function
    def run_patient(self, eps):
        args = self.args
        learner = self.learner
        x, y = sample_patient(args.samples)
        for w, m in zip(learner.trainable_variables, self.meta.trainable_variables):
            w.assign(m)
        for _ in tf.range(args.inner_steps):
            with tf.GradientTape() as tape:
                loss = self.mse(y, learner(x, training=True))
            grads = tape.gradient(loss, learner.trainable_variables)
            self.opt.apply_gradients(zip(grads, learner.trainable_variables))
        for w, m in zip(learner.trainable_variables, self.meta.trainable_variables):
            m.assign_add(eps * (w - m))
        self.last.update_state(self.mse(y, learner(x)))

    def train(self):
        args = self.args
        for it in range(args.meta_iters):
            eps = tf.constant(args.meta_lr * (1.0 - it / args.meta_iters), tf.float32)
            self.run_patient(eps)
            if (it + 1) % args.report == 0:
                print(f"{it + 1:5d} patients, loss after adaptation {float(self.last.result()):.5f}")
                self.last.reset_state()


def main():
    args = get_args()
    tf.random.set_seed(11)
    trainer = Reptile(args)
    trainer.train()
    trainer.meta.save("pk_reptile.keras")


if __name__ == "__main__":
    main()
