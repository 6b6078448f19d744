"""Near-infrared calibration: protein content of wheat from absorbance spectra."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras import regularizers

CHANNELS = 700
SAMPLES = 240


def load_spectra():
    rng = np.random.default_rng(12)
    wave = np.linspace(1100, 2500, CHANNELS)
    protein = rng.normal(12.5, 1.6, SAMPLES)
    moisture = rng.normal(11.0, 0.8, SAMPLES)
    band = lambda centre, width: np.exp(-((wave - centre) / width) ** 2)
    spectra = (
        protein[:, None] * band(2180, 60)
        + moisture[:, None] * band(1940, 50)
        + rng.normal(0, 0.4, (SAMPLES, 1)) * wave / 2500
        + rng.normal(0, 0.02, (SAMPLES, CHANNELS))
    )
    return spectra.astype("float32"), protein.astype("float32")


def snv(spectra):
    return (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, keepdims=True)


def build():
    return keras.Sequential([
        keras.Input((CHANNELS,)),
        layers.Dense(64, activation="elu", kernel_regularizer=regularizers.l2(1e-4)),
        layers.Dense(16, activation="elu", kernel_regularizer=regularizers.l2(1e-4)),
        layers.Dense(1),
    ])


spectra, protein = load_spectra()
spectra = snv(spectra)
target = (protein - protein.mean()) / protein.std()

train_x, train_y = spectra[:192], target[:192]
test_x, test_y = spectra[192:], target[192:]

model = build()
model.compile(
    optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 5000)),
    loss="mse",
)
train = tf.data.Dataset.from_tensor_slices((train_x, train_y)).cache().shuffle(192).batch(192)
train = train.prefetch(tf.data.AUTOTUNE)
model.fit(train, epochs=5000, verbose=0)

predicted = model.predict(test_x, verbose=0)[:, 0]
rmsep = np.sqrt(np.mean((predicted - test_y) ** 2)) * protein.std()
r2 = 1 - np.sum((predicted - test_y) ** 2) / np.sum((test_y - test_y.mean()) ** 2)
print(f"RMSEP {rmsep:.3f} %  R2 {r2:.3f}")
