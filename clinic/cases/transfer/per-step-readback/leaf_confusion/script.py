import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

# plant leaf disease, 10 classes, 32x32 crops
names = ["healthy", "rust", "scab", "blight", "mold", "mildew", "spot", "mosaic", "curl", "wilt"]
keras.utils.set_random_seed(0)


def make_leaves(n, size=32):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, len(names), n)
    yy, xx = np.mgrid[0:size, 0:size] / size
    imgs = rng.random((n, size, size, 3), dtype=np.float32) * 0.4
    for c in range(len(names)):
        pattern = 0.3 + 0.3 * np.sin((c + 2) * 3 * xx + c * yy * 2)
        imgs[labels == c, :, :, c % 3] += pattern.astype("float32")
    return imgs, labels.astype("int64")


def build():
    inp = keras.Input((32, 32, 3))
    x = inp
    for f in (12, 24, 32):
        x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(48, activation="relu")(x)
    return keras.Model(inp, layers.Dense(len(names))(x))


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(model.trainable_variables)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.steps = 0
        self.confusion = np.zeros((len(names), len(names)), int)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = self.loss(y, logits)
        g = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(g, self.model.trainable_variables))
        return loss, logits

    def run_epoch(self, ds):
        self.confusion[:] = 0
        losses = []
        for x, y in ds:
            loss, logits = self.step(x, y)
            self.steps += 1
            losses.append(loss)
            for i in range(len(y)):
                pred = int(tf.argmax(logits[i]))
                self.confusion[int(y[i]), pred] += 1
        return float(tf.reduce_mean(losses))

    def report(self):
        diag = np.diag(self.confusion)
        recall = diag / np.maximum(self.confusion.sum(1), 1)
        worst = int(np.argmin(recall))
        return diag.sum() / self.confusion.sum(), names[worst], recall[worst]


images, labels = make_leaves(2560)
ds = (tf.data.Dataset.from_tensor_slices((images, labels))
      .shuffle(2560, seed=5)
      .batch(64, drop_remainder=True)
      .prefetch(tf.data.AUTOTUNE))

trainer = Trainer(build())
t0 = time.time()
for epoch in range(6):
    loss = trainer.run_epoch(ds)
    acc, worst, rec = trainer.report()
    print(f"{epoch:2d}  loss {loss:.3f}  acc {acc:.3f}  worst class: {worst} ({rec:.2f})")
elapsed = time.time() - t0

print("WORK", trainer.steps)
print(f"TRAIN_SECONDS {elapsed:.3f}")
