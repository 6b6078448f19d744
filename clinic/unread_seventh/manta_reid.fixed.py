"""Who is this manta? Embeddings of belly-spot patterns, matched by distance."""
import os
import pickle

import numpy as np
import tensorflow as tf
import keras
from keras import layers

ROOT = os.environ.get("MANTA_ROOT", "/data/manta")
PEOPLE_PER_BATCH = 16   # individuals
SHOTS = 4               # photos of each
STEPS = 500
EPOCHS = 40
DIM = 128

keras.utils.set_random_seed(99)
keras.mixed_precision.set_global_policy("mixed_bfloat16")


def load(part):
    """Crops are resized to 160 x 160 uint8 beforehand by crop_bellies.py."""
    images = np.load(os.path.join(ROOT, part + "_crops.npy"))
    ids = np.load(os.path.join(ROOT, part + "_ids.npy")).astype("int32")
    return images, ids


def draw_plan(ids, n_batches, rng):
    """Row = the photo numbers of one batch: SHOTS photos of each of PEOPLE_PER_BATCH mantas."""
    members = {i: np.flatnonzero(ids == i) for i in np.unique(ids)}
    usable = np.array([i for i, m in members.items() if len(m) >= SHOTS])
    plan = np.empty((n_batches, PEOPLE_PER_BATCH * SHOTS), "int32")
    for row in plan:
        chosen = rng.choice(usable, PEOPLE_PER_BATCH, replace=False)
        row[:] = np.concatenate([rng.choice(members[i], SHOTS, replace=False) for i in chosen])
    return plan


def training_set(images, ids):
    plan = draw_plan(ids, STEPS * EPOCHS, np.random.default_rng(3))
    with tf.device("CPU"):
        images, ids = tf.constant(images), tf.constant(ids)
    ds = tf.data.Dataset.from_tensor_slices(plan)
    ds = ds.map(lambda i: (tf.gather(images, i), tf.gather(ids, i)), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class LiftedLoss(keras.losses.Loss):
    """Pull photos of one individual together, push the hardest of the others past a margin."""

    def __init__(self, margin=0.8, temperature=0.1, name="lifted"):
        super().__init__(name=name)
        self.margin = margin
        self.temperature = temperature

    def call(self, ids, emb):
        ids = tf.reshape(ids, [-1])
        emb = tf.cast(emb, tf.float32)
        squared = tf.reduce_sum(tf.square(emb[:, None, :] - emb[None, :, :]), -1)
        d = tf.sqrt(tf.maximum(squared, 1e-12))
        same = tf.cast(tf.equal(ids[:, None], ids[None, :]), tf.float32)
        pull = tf.reduce_sum(same * d, 1) / tf.reduce_sum(same, 1)
        closeness = (self.margin - d) / self.temperature - 1e4 * same
        push = self.temperature * tf.reduce_logsumexp(closeness, 1)
        return tf.nn.softplus(4.0 * (pull + push))


def make_model():
    inp = keras.Input((160, 160, 3))
    x = layers.RandomRotation(0.5, fill_mode="constant", dtype="float32")(inp)
    x = layers.RandomBrightness(0.15, dtype="float32")(x)
    x = layers.RandomContrast(0.2, dtype="float32")(x)
    x = keras.applications.EfficientNetV2B1(include_top=False, input_shape=(160, 160, 3))(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(DIM, dtype="float32")(x)
    return keras.Model(inp, layers.UnitNormalization(dtype="float32")(x))


class MatchRate(keras.callbacks.Callback):
    """Rank-1 / rank-5 on held-out individuals: first half of the photos is the gallery."""

    def __init__(self, images, ids, every=5):
        super().__init__()
        gallery = np.zeros(len(ids), bool)
        gallery[::2] = True
        self.images, self.ids, self.gallery, self.every = images, ids, gallery, every
        self.table = []

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        emb = self.model.predict(self.images, batch_size=256, verbose=0)
        score = emb[~self.gallery] @ emb[self.gallery].T
        order = np.argsort(-score, axis=1)[:, :5]
        hit = self.ids[self.gallery][order] == self.ids[~self.gallery][:, None]
        self.table.append((epoch + 1, hit[:, 0].mean(), hit.any(1).mean()))
        print("epoch %d  rank-1 %.3f  rank-5 %.3f" % self.table[-1])


def main():
    images, ids = load("train")
    print(images.shape, len(np.unique(ids)), "individuals")
    model = make_model()
    schedule = keras.optimizers.schedules.CosineDecay(
        1e-5, STEPS * EPOCHS, warmup_target=4e-4, warmup_steps=2 * STEPS)
    model.compile(optimizer=keras.optimizers.AdamW(schedule, weight_decay=1e-4, global_clipnorm=5.0),
                  loss=LiftedLoss())
    match = MatchRate(*load("query"))
    model.fit(training_set(images, ids), steps_per_epoch=STEPS, epochs=EPOCHS, verbose=2,
              callbacks=[match, keras.callbacks.CSVLogger("manta.csv")])

    os.makedirs("export", exist_ok=True)
    model.save("export/manta_reid.keras")
    with open("export/gallery.pkl", "wb") as fh:
        pickle.dump({"emb": model.predict(images, batch_size=256), "ids": ids}, fh)
    with open("export/match.txt", "w") as fh:
        fh.writelines("%d %.4f %.4f\n" % row for row in match.table)


if __name__ == "__main__":
    main()
