import os
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tqdm import tqdm


@dataclass
class Cfg:
    n_traj: int = 40000
    length: int = 48
    dt: float = 0.02
    latent: int = 64
    hidden: list = field(default_factory=lambda: [256, 256])
    batch_size: int = 512
    epochs: int = 100
    lr: float = 1e-3
    w_recon: float = 1.0
    w_linear: float = 0.5
    w_pred: float = 1.0
    out_dir: str = "runs/koopman"


def lorenz_rhs(s):
    x, y, z = s[:, 0], s[:, 1], s[:, 2]
    return np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z], axis=1)


def simulate(cfg, seed):
    rng = np.random.default_rng(seed)
    s = rng.normal(0, 8, (cfg.n_traj, 3)) + np.array([0, 0, 25.0])
    frames = []
    for _ in range(cfg.length):
        frames.append(s.astype(np.float32))
        k1 = lorenz_rhs(s)
        k2 = lorenz_rhs(s + 0.5 * cfg.dt * k1)
        k3 = lorenz_rhs(s + 0.5 * cfg.dt * k2)
        k4 = lorenz_rhs(s + cfg.dt * k3)
        s = s + cfg.dt / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
    traj = np.stack(frames, axis=1)
    return (traj - traj.mean((0, 1))) / traj.std((0, 1))


def mlp(n_in, hidden, n_out):
    net = keras.Sequential([keras.Input((None, n_in))])
    for h in hidden:
        net.add(layers.Dense(h, activation="gelu"))
    net.add(layers.Dense(n_out))
    return net


class Koopman(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.enc = mlp(3, cfg.hidden, cfg.latent)
        self.dec = mlp(cfg.latent, cfg.hidden[::-1], 3)
        self.K = layers.Dense(cfg.latent, use_bias=False, kernel_initializer="identity")
        self.K.build((None, None, cfg.latent))

    def call(self, s):
        z = self.enc(s)
        z_next = self.K(z[:, :-1])
        return self.dec(z), z[:, 1:], z_next, self.dec(z_next)


def build_step(model, optimizer, cfg):
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(s):
        with tf.GradientTape() as tape:
            recon, z_true, z_pred, s_pred = model(s)
            l_rec = tf.reduce_mean(tf.square(recon - s))
            l_lin = tf.reduce_mean(tf.square(z_true - z_pred))
            l_pred = tf.reduce_mean(tf.square(s_pred - s[:, 1:]))
            loss = cfg.w_recon * l_rec + cfg.w_linear * l_lin + cfg.w_pred * l_pred
        g = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(g, model.trainable_variables))
        return loss, l_rec, l_lin, l_pred

    return step


def train(cfg):
    os.makedirs(cfg.out_dir, exist_ok=True)
    data = simulate(cfg, seed=0)
    ds = tf.data.Dataset.from_tensor_slices(data)
    ds = ds.shuffle(cfg.n_traj).batch(cfg.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    model = Koopman(cfg)
    model(tf.zeros((1, cfg.length, 3)))
    step = build_step(model, keras.optimizers.Adam(cfg.lr), cfg)
    history = []
    for epoch in tqdm(range(cfg.epochs), desc="epochs"):
        running = np.zeros(4)
        n = 0
        for s in ds:
            parts = step(s)
            running += np.array([p.numpy() for p in parts])
            n += 1
        history.append(running / n)
        if (epoch + 1) % 10 == 0:
            tqdm.write("epoch %d  loss %.4f  rec %.4f  lin %.4f  pred %.4f" % (epoch + 1, *history[-1]))
    np.save(os.path.join(cfg.out_dir, "history.npy"), np.stack(history))
    model.save_weights(os.path.join(cfg.out_dir, "koopman.weights.h5"))
    return model


if __name__ == "__main__":
    model = train(Cfg())
    eig = np.linalg.eigvals(model.K.get_weights()[0])
    print("largest |eigenvalue|:", np.abs(eig).max())
