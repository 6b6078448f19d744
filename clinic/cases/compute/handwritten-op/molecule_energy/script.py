"""Predict molecular energies from atoms: atom features -> shared MLP -> molecule context -> energy."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

MOLECULES = 48
ATOMS = 28
FEATURES = 16
HIDDEN = 64


def make_batches(count, seed=2):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        sizes = rng.multinomial(MOLECULES * (ATOMS - 8), np.ones(MOLECULES) / MOLECULES) + 8
        mol = np.repeat(np.arange(MOLECULES), sizes).astype(np.int32)
        atoms = rng.normal(size=(len(mol), FEATURES)).astype(np.float32)
        energy = np.zeros(MOLECULES, np.float32)
        np.add.at(energy, mol, np.tanh(atoms[:, 0]) * atoms[:, 1])
        out.append((tf.constant(atoms), tf.constant(mol), tf.constant(energy[:, None])))
    return out


def sum_over_molecule(h, mol):
    sums = []
    for m in range(MOLECULES):
        members = tf.boolean_mask(h, tf.equal(mol, m))
        sums.append(tf.reduce_sum(members, axis=0))
    return tf.stack(sums)


class ContextBlock(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.own = layers.Dense(units)
        self.other = layers.Dense(units)

    def call(self, h, mol):
        context = sum_over_molecule(h, mol) / ATOMS
        return tf.nn.silu(self.own(h) + tf.gather(self.other(context), mol))


class EnergyNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Dense(HIDDEN, activation="silu")
        self.block1 = ContextBlock(HIDDEN)
        self.readout = keras.Sequential([layers.Dense(HIDDEN, activation="silu"), layers.Dense(1)])

    def call(self, atoms, mol):
        h = self.block1(self.embed(atoms), mol)
        return sum_over_molecule(self.readout(h), mol)


keras.utils.set_random_seed(31)
batches = make_batches(20)
net = EnergyNet()
net(*batches[0][:2])
adam = keras.optimizers.Adam(3e-3)
adam.build(net.trainable_variables)


@tf.function(input_signature=[tf.TensorSpec((MOLECULES * ATOMS, FEATURES)),
                              tf.TensorSpec((MOLECULES * ATOMS,), tf.int32),
                              tf.TensorSpec((MOLECULES, 1))])
def fit_batch(atoms, mol, energy):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(atoms, mol) - energy))
    grads = tape.gradient(loss, net.trainable_variables)
    adam.apply_gradients(zip(grads, net.trainable_variables))
    return loss


start = time.perf_counter()
done = 0
for epoch in range(30):
    losses = []
    for atoms, mol, energy in batches:
        losses.append(fit_batch(atoms, mol, energy))
        done += 1
    if epoch % 5 == 0:
        print("epoch", epoch, "mse", float(tf.reduce_mean(losses)))
elapsed = time.perf_counter() - start
print("WORK", done)
print("TRAIN_SECONDS", elapsed)
