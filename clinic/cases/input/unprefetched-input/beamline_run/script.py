"""Denoise detector frames while the beamline delivers them: one burst per exposure."""
import logging
import time

import numpy as np
import tensorflow as tf

logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
log = logging.getLogger("beamline")
CONFIG = {"burst": 32, "steps": 400, "exposure_s": 0.01, "pixels": 32, "rate": 1e-3}


class Detector:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.default_rng(21)
        self.bank = self.rng.poisson(4.0, (64, cfg["burst"], cfg["pixels"], cfg["pixels"], 1)).astype("float32")

    def exposures(self):
        for i in range(self.cfg["steps"]):
            time.sleep(self.cfg["exposure_s"])  # shutter open
            clean = self.bank[i % 64]
            yield clean + self.rng.normal(0, 1, clean.shape).astype("float32"), clean


def stream(detector):
    return detector.exposures()


def denoiser():
    k = tf.keras
    x = inp = k.Input((CONFIG["pixels"], CONFIG["pixels"], 1))
    for f in (32, 32, 16):
        x = k.layers.Conv2D(f, 3, padding="same", activation="relu")(x)
    return k.Model(inp, inp + k.layers.Conv2D(1, 3, padding="same")(x))


def train(cfg):
    tf.keras.utils.set_random_seed(6)
    net, opt = denoiser(), tf.keras.optimizers.Adam(cfg["rate"])
    opt.build(net.trainable_variables)

    @tf.function
    def step(noisy, clean):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(noisy, training=True) - clean))
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    t0 = time.time()
    for i, (noisy, clean) in enumerate(stream(Detector(cfg))):
        loss = step(noisy, clean)
        if i % 100 == 99:
            log.info("step %d loss %.4f", i + 1, loss.numpy())
    print(f"{cfg['steps']} steps, {time.time() - t0:.2f} s")


if __name__ == "__main__":
    train(CONFIG)
