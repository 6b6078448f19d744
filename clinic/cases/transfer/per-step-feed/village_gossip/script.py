"""Who passes news on? Node classification on a village network, GraphSAGE-like with sampled neighbours.

Node features come from a survey (one row per person).
"""
import time

import numpy as np
import tensorflow as tf

PEOPLE, ANSWERS, NEIGHBOURS, BATCH, STEPS = 12_000, 600, 6, 128, 420
tf.keras.utils.set_random_seed(33)
rng = np.random.default_rng(33)

survey = rng.integers(1, 6, size=(PEOPLE, ANSWERS)) / 5.0
gossip = (survey[:, :8].mean(1) + rng.normal(0, 0.03, PEOPLE) > 0.6).astype("int32")
friends = rng.integers(0, PEOPLE, size=(PEOPLE, NEIGHBOURS))


class Sage(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.me = tf.keras.layers.Dense(48, activation="relu")
        self.them = tf.keras.layers.Dense(48, activation="relu")
        self.out = tf.keras.layers.Dense(2)

    def call(self, table, who, around):
        own = self.me(tf.gather(table, who))
        other = tf.reduce_mean(self.them(tf.gather(table, around)), axis=1)
        return self.out(tf.concat([own, other], -1))


model = Sage()
optimizer = tf.keras.optimizers.Adam(1e-3)
criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(table, who, around, label):
    with tf.GradientTape() as tape:
        loss = criterion(label, model(table, who, around))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


t0 = time.time()
for step in range(STEPS):
    who = rng.integers(0, PEOPLE, BATCH)
    table = tf.convert_to_tensor(survey, dtype=tf.float32)
    loss = train_step(table, tf.constant(who), tf.constant(friends[who]), tf.constant(gossip[who]))
    if step % 60 == 59:
        print("step", step + 1, "loss %.4f" % loss.numpy())
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
