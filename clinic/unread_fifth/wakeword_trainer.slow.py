import os
import numpy as np
import tensorflow as tf
import keras
from keras import layers

N_FRAMES = 98
N_MELS = 40
LABELS = ["up", "down", "left", "right", "go", "stop", "yes", "no", "_unknown_", "_silence_"]


def load_features(path="speech_feats.npz"):
    if os.path.exists(path):
        d = np.load(path)
        return d["x"], d["y"]
    rng = np.random.default_rng(3)
    y = rng.integers(0, len(LABELS), 16000).astype("int32")
    proto = rng.normal(size=(len(LABELS), N_FRAMES, N_MELS)).astype("float32")
    x = proto[y] + rng.standard_normal((16000, N_FRAMES, N_MELS), dtype=np.float32) * 2
    return x, y


class TCBlock(layers.Layer):
    def __init__(self, ch, kernel, dilation=1, **kw):
        super().__init__(**kw)
        self.conv = layers.SeparableConv1D(ch, kernel, dilation_rate=dilation,
                                           padding="same", use_bias=False)
        self.bn = layers.BatchNormalization()
        self.act = layers.ReLU()
        self.proj = layers.Conv1D(ch, 1, use_bias=False)

    def call(self, x, training=False):
        h = self.bn(self.conv(x), training=training)
        return self.act(h + self.proj(x))


class WakeNet(keras.Model):
    def __init__(self, n_classes):
        super().__init__()
        self.stem = layers.Conv1D(64, 5, padding="same", activation="relu")
        self.blocks = [TCBlock(64, 9), TCBlock(64, 9, 2), TCBlock(96, 9, 4),
                       TCBlock(96, 11, 4), TCBlock(128, 13, 8)]
        self.pool = layers.GlobalAveragePooling1D()
        self.drop = layers.Dropout(0.3)
        self.out = layers.Dense(n_classes)

    def call(self, x, training=False):
        h = self.stem(x)
        for b in self.blocks:
            h = b(h, training=training)
        return self.out(self.drop(self.pool(h), training=training))


class Trainer:
    def __init__(self, model, lr, weight_decay=1e-4):
        self.model = model
        self.opt = keras.optimizers.AdamW(lr, weight_decay=weight_decay)
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.loss = keras.metrics.Mean(name="loss")
        self.acc = keras.metrics.SparseCategoricalAccuracy(name="acc")
        self.val_acc = keras.metrics.SparseCategoricalAccuracy(name="val_acc")

    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = self.loss_fn(y, logits)
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)
        self.acc.update_state(y, logits)

    def test_step(self, x, y):
        self.val_acc.update_state(y, self.model(x, training=False))

    def fit(self, train_ds, val_ds, epochs):
        best = 0.0
        for epoch in range(1, epochs + 1):
            for m in (self.loss, self.acc, self.val_acc):
                m.reset_state()
            for x, y in train_ds:
                self.train_step(x, y)
            for x, y in val_ds:
                self.test_step(x, y)
            va = float(self.val_acc.result())
            print(f"[{epoch:02d}/{epochs}] loss={float(self.loss.result()):.4f} "
                  f"acc={float(self.acc.result()):.3f} val_acc={va:.3f}")
            if va > best:
                best = va
                self.model.save_weights("wakenet_best.weights.h5")
        return best


def make_ds(x, y, batch, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(4096)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    x, y = load_features()
    x = (x - x.mean((0, 1))) / (x.std((0, 1)) + 1e-6)
    train_ds = make_ds(x[1600:], y[1600:], 128, True)
    val_ds = make_ds(x[:1600], y[:1600], 256, False)

    model = WakeNet(len(LABELS))
    best = Trainer(model, lr=2e-3).fit(train_ds, val_ds, epochs=30)
    print("best val acc", best)
