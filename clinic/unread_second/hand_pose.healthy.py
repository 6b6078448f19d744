"""Hand keypoint regression with a frozen-backbone warmup phase."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

CONF = {
    "size": 128,
    "joints": 21,
    "batch": 64,
    "warmup_epochs": 2,
    "epochs": 10,
    "lr": 1e-3,
    "log_every": 100,
}


def fake_hands(n, c):
    rng = np.random.default_rng(0)
    pts = rng.uniform(0.2, 0.8, (n, c["joints"], 2)).astype("float32")
    img = rng.integers(0, 80, (n, c["size"], c["size"], 3), dtype=np.uint8)
    px = (pts * c["size"]).astype(int)
    for j in range(c["joints"]):
        img[np.arange(n), px[:, j, 1], px[:, j, 0]] = 255
    return img, pts.reshape(n, -1)


def backbone(c):
    inp = keras.Input((c["size"], c["size"], 3), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255.0)(inp)
    for f in (32, 64, 128, 128):
        x = keras.layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inp, keras.layers.Flatten()(x), name="backbone")


class PoseTrainer:
    def __init__(self, c):
        self.c = c
        self.body = backbone(c)
        self.head = keras.Sequential([
            keras.Input(self.body.output_shape[1:]),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(c["joints"] * 2, activation="sigmoid"),
        ])
        self.opt = keras.optimizers.Adam(c["lr"])
        self.opt.build(self.body.trainable_variables + self.head.trainable_variables)

    @tf.function
    def step(self, img, pts, warmup):
        with tf.GradientTape() as tape:
            feat = self.body(img, training=not warmup)
            pred = self.head(feat, training=True)
            loss = tf.reduce_mean(tf.abs(pred - pts))
        body_vars = self.body.trainable_variables
        head_vars = self.head.trainable_variables
        grads = tape.gradient(loss, body_vars + head_vars)
        if warmup:
            grads = [tf.zeros_like(g) for g in grads[: len(body_vars)]] + grads[len(body_vars):]
        self.opt.apply_gradients(zip(grads, body_vars + head_vars))
        return loss

    def fit(self, ds):
        it = 0
        curve = []
        for epoch in range(self.c["epochs"]):
            self.opt.learning_rate.assign(self.c["lr"] * 0.9 ** epoch)
            for img, pts in ds:
                loss = self.step(img, pts, epoch < self.c["warmup_epochs"])
                if it % self.c["log_every"] == 0:
                    curve.append(loss.numpy())
                    print(f"epoch {epoch} it {it} l1 {curve[-1]:.4f}", flush=True)
                it += 1
        return curve


def main():
    img, pts = fake_hands(8000, CONF)
    ds = tf.data.Dataset.from_tensor_slices((img, pts))
    ds = ds.shuffle(2000).batch(CONF["batch"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    PoseTrainer(CONF).fit(ds)


if __name__ == "__main__":
    main()
