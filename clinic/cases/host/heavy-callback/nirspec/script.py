"""Near-infrared spectra -> moisture, protein and ash; logs how the weight distributions evolve."""
import time

import numpy as np
import keras
from keras import layers, ops

BANDS = 400
TARGETS = ["moisture", "protein", "ash"]


def make_spectra(n, rng):
    wl = np.linspace(0, 1, BANDS)
    centres = np.array([0.18, 0.36, 0.47, 0.63, 0.81])
    widths = np.array([0.05, 0.03, 0.08, 0.04, 0.06])
    basis = np.exp(-0.5 * ((wl - centres[:, None]) / widths[:, None]) ** 2)
    conc = rng.gamma(2.0, 0.5, (n, len(centres)))
    spectra = conc @ basis
    spectra += rng.normal(0, 0.3, (n, 1)) + rng.normal(0, 0.2, (n, 1)) * wl
    spectra += rng.normal(0, 0.02, spectra.shape)
    mean, std = spectra.mean(1, keepdims=True), spectra.std(1, keepdims=True)
    y = np.stack([conc[:, 0] + 0.2 * conc[:, 3], conc[:, 1] * conc[:, 2], np.sqrt(conc[:, 4])], axis=1)
    return ((spectra - mean) / std).astype("float32"), y.astype("float32")


class WeightLog(keras.callbacks.Callback):
    """Keeps histograms of every kernel for the figure of the appendix."""

    def __init__(self, bins=120, span=0.4):
        super().__init__()
        self.edges = np.linspace(-span, span, bins + 1)
        self.history = {}

    def record(self):
        for layer in self.model.layers:
            for value in layer.get_weights():
                if value.ndim < 2:
                    continue
                counts, _ = np.histogram(value, bins=self.edges)
                self.history.setdefault(layer.name, []).append(
                    (counts, float(np.abs(value).mean()), float(value.std()))
                )

    def on_train_batch_end(self, batch, logs=None):
        self.record()

    def summary(self):
        for name, rows in self.history.items():
            print(f"  {name}: {len(rows)} records, spread {rows[0][2]:.4f} -> {rows[-1][2]:.4f}")


def rpd(y_true, y_pred):
    err = ops.sqrt(ops.mean(ops.square(y_true - y_pred)))
    return ops.std(y_true) / (err + 1e-6)


def make_model(hidden=(256, 256, 256)):
    model = keras.Sequential([keras.Input((BANDS,))], name="nir")
    for i, units in enumerate(hidden):
        model.add(layers.Dense(units, activation="relu", kernel_initializer="he_normal", name=f"hidden{i}"))
    model.add(layers.Dense(len(TARGETS), name="out"))
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 700)
    model.compile(optimizer=keras.optimizers.Adam(schedule), loss="huber", metrics=[rpd])
    return model


def main():
    keras.utils.set_random_seed(8)
    rng = np.random.default_rng(8)
    x, y = make_spectra(25600, rng)
    xv, yv = make_spectra(2000, rng)
    model = make_model()
    weight_log = WeightLog()

    epochs = 7
    began = time.time()
    hist = model.fit(x, y, batch_size=256, epochs=epochs, verbose=2, callbacks=[weight_log])
    took = time.time() - began

    weight_log.summary()
    pred = model.predict(xv, batch_size=1000, verbose=0)
    for name, a, b in zip(TARGETS, yv.T, pred.T):
        print(f"  {name}: RMSEP {np.sqrt(np.mean((a - b) ** 2)):.4f}")
    print("final loss", hist.history["loss"][-1])
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.3f" % took)


if __name__ == "__main__":
    main()
