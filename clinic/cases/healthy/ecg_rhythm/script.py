"""Rhythm classes from 8-lead ECG, the usual fit() with the usual callbacks."""
import os
import tempfile
import time

import numpy as np
import keras
from keras import callbacks, layers

LEADS, SAMPLES, RHYTHMS = 8, 512, 5


def beats(n, seed):
    rng = np.random.default_rng(seed)
    rhythm = rng.integers(0, RHYTHMS, n)
    t = np.arange(SAMPLES) / 128.
    rate = (.8 + .3 * rhythm + rng.normal(0, .05, n))[:, None]
    phase = (t * rate + rng.random((n, 1))) % 1.
    wave = np.exp(-((phase - .5) / .03) ** 2) - .25 * np.exp(-((phase - .58) / .04) ** 2)
    gain = rng.normal(0, 1, (n, 1, LEADS))
    x = wave[..., None] * gain + rng.normal(0, .1, (n, SAMPLES, LEADS))
    return x.astype('float32'), rhythm.astype('int32')


def network():
    inp = keras.Input((SAMPLES, LEADS))
    x = layers.Conv1D(64, 9, padding='same', activation='relu')(inp)
    x = layers.Conv1D(128, 7, strides=2, padding='same', activation='relu')(x)
    x = layers.Conv1D(160, 5, strides=2, padding='same', activation='relu')(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(RHYTHMS, activation='softmax')(x))


def main():
    keras.utils.set_random_seed(71)
    train, val = beats(1152, 71), beats(64, 72)
    model = network()
    model.compile(keras.optimizers.Adam(1e-3), 'sparse_categorical_crossentropy', metrics=['accuracy'])
    with tempfile.TemporaryDirectory() as out:
        watch = [
            callbacks.ModelCheckpoint(os.path.join(out, 'best.weights.h5'), save_best_only=True,
                                      save_weights_only=True),
            callbacks.EarlyStopping(patience=5, restore_best_weights=True),
            callbacks.ReduceLROnPlateau(factor=.5, patience=2),
            callbacks.CSVLogger(os.path.join(out, 'history.csv')),
        ]
        t0 = time.time()
        model.fit(*train, batch_size=32, epochs=4, validation_data=val, validation_batch_size=64,
                  callbacks=watch, verbose=2)
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    main()
