"""Door camera: face embedding with hard negatives picked by the current model."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(29)
rng = np.random.default_rng(29)

PEOPLE, SHOTS, SIZE = 40, 12, 32
templates = rng.normal(0, 1, (PEOPLE, SIZE, SIZE, 1))
faces = templates[:, None] + rng.normal(0, 0.8, (PEOPLE, SHOTS, SIZE, SIZE, 1))
faces = faces.astype("float32")

encoder = tf.keras.Sequential([
    tf.keras.layers.Input((SIZE, SIZE, 1)),
    tf.keras.layers.Conv2D(12, 5, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(32),
    tf.keras.layers.UnitNormalization(),
])

a = tf.keras.Input((SIZE, SIZE, 1))
p = tf.keras.Input((SIZE, SIZE, 1))
n = tf.keras.Input((SIZE, SIZE, 1))
stacked = tf.keras.layers.Concatenate()([encoder(a), encoder(p), encoder(n)])
triplet = tf.keras.Model([a, p, n], stacked)


def triplet_loss(_, out):
    ea, ep, en = tf.split(out, 3, axis=-1)
    dp = tf.reduce_sum(tf.square(ea - ep), axis=-1)
    dn = tf.reduce_sum(tf.square(ea - en), axis=-1)
    return tf.maximum(dp - dn + 0.4, 0.0)


triplet.compile(optimizer=tf.keras.optimizers.Adam(5e-4), loss=triplet_loss)


def hardest_negative(anchor, person):
    others = rng.choice([q for q in range(PEOPLE) if q != person], 8, replace=False)
    candidates = faces[others, rng.integers(0, SHOTS, 8)]
    emb = encoder.predict(np.concatenate([anchor[None], candidates]), verbose=0)
    return candidates[np.argmax(emb[1:] @ emb[0])]


dummy = np.zeros((32, 1), "float32")
for step in range(1, 73):
    people = rng.choice(PEOPLE, 32)
    shots = np.array([rng.choice(SHOTS, 2, replace=False) for _ in people])
    anchors, positives = faces[people, shots[:, 0]], faces[people, shots[:, 1]]
    negatives = anchors[rng.permutation(32)].copy()
    for j in rng.choice(32, 2, replace=False):
        negatives[j] = hardest_negative(anchors[j], people[j])
    loss = triplet.train_on_batch([anchors, positives, negatives], dummy)
    if step % 24 == 0:
        print(f"step {step} loss {float(loss):.4f}")
