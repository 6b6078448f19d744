"""Person re-identification, batch-hard triplet loss on P x K batches."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers

P, K = 8, 4
BATCH = P * K
MARGIN = 0.3
STEPS = 3000


def gallery(people=300, shots=8):
    rng = np.random.default_rng(6)
    base = rng.integers(40, 216, (people, 1, 16, 8, 3))
    img = base + rng.integers(-40, 40, (people, shots, 16, 8, 3))
    return np.repeat(np.repeat(img.astype(np.uint8), 4, axis=2), 4, axis=3)


def pk_batches(images):
    people, shots = images.shape[:2]
    bank = tf.constant(images)

    def draw(_):
        who = tf.random.shuffle(tf.range(people))[:P]
        which = tf.random.uniform([P, K], 0, shots, tf.int32)
        where = tf.stack([tf.repeat(who, K), tf.reshape(which, [-1])], axis=1)
        x = tf.cast(tf.gather_nd(bank, where), tf.float32) / 255.0
        return x, tf.repeat(who, K)

    return tf.data.Dataset.range(STEPS).map(draw, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def backbone():
    return Sequential([
        layers.Input((64, 32, 3)),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(64, 3, strides=2, activation="relu"),
        layers.Conv2D(128, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(128),
        layers.UnitNormalization(),
    ])


def batch_hard(emb, labels):
    gap = tf.reduce_sum(tf.square(emb[:, None, :] - emb[None, :, :]), axis=-1)
    d = tf.sqrt(gap + 1e-12)
    same = tf.equal(labels[:, None], labels[None, :])
    hardest_pos = tf.reduce_max(tf.where(same, d, 0.0), axis=1)
    hardest_neg = tf.reduce_min(tf.where(same, 1e9, d), axis=1)
    return tf.reduce_mean(tf.nn.relu(hardest_pos - hardest_neg + MARGIN))


net = backbone()
opt = optimizers.Adam(3e-4)
opt.build(net.trainable_variables)


@tf.function
def train_step(x, labels):
    with tf.GradientTape() as tape:
        loss = batch_hard(net(x, training=True), labels)
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    return loss


for step, (x, who) in enumerate(pk_batches(gallery())):
    loss = train_step(x, who)
    if step % 250 == 0:
        print(step, float(loss))
