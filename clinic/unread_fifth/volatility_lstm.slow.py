# Next-day realised volatility from 120 days of features, panel of tickers
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

WINDOW = 120
TICKERS = 60
DAYS = 1500
BATCH = 256


def simulate_panel(seed=42):
    rng = np.random.default_rng(seed)
    shocks = rng.normal(size=(TICKERS, DAYS)).astype("float32")
    slow = np.cumsum(rng.normal(scale=0.03, size=(TICKERS, DAYS)), axis=1).astype("float32")
    vol = 0.01 * np.exp(np.tanh(slow))
    ret = vol * shocks
    volume = np.log(1e6 + 1e8 * np.abs(ret)).astype("float32")
    rng_hl = vol * np.abs(rng.normal(size=(TICKERS, DAYS))).astype("float32")
    feats = np.stack([ret * 50, np.abs(ret) * 50, volume - 13.8, rng_hl * 50, vol * 50], axis=-1)
    return feats, np.log(vol)


def to_windows(feats, target):
    w = np.lib.stride_tricks.sliding_window_view(feats, WINDOW, axis=1)[:, :-1]
    w = np.moveaxis(w, -1, 2)
    y = target[:, WINDOW:]
    return w, y


class VolModel(keras.Model):
    def __init__(self, units=128, dropout=0.2):
        super().__init__()
        self.lstm1 = layers.LSTM(units, return_sequences=True,
                                 recurrent_dropout=dropout)
        self.lstm2 = layers.LSTM(units, recurrent_dropout=dropout)
        self.fc = layers.Dense(64, activation="swish")
        self.mu = layers.Dense(1)
        self.log_sigma = layers.Dense(1)

    def call(self, x, training=False):
        h = self.lstm1(x, training=training)
        h = self.lstm2(h, training=training)
        h = self.fc(h)
        return tf.concat([self.mu(h), self.log_sigma(h)], axis=-1)


def gaussian_nll(y_true, y_pred):
    mu, log_s = y_pred[:, :1], tf.clip_by_value(y_pred[:, 1:], -5.0, 5.0)
    y_true = tf.reshape(y_true, tf.shape(mu))
    return tf.reduce_mean(log_s + 0.5 * tf.square((y_true - mu) * tf.exp(-log_s)))


feats, log_vol = simulate_panel()
x, y = to_windows(feats, log_vol)
cut = int(x.shape[1] * 0.85)
x_train = np.ascontiguousarray(x[:, :cut]).reshape(-1, WINDOW, x.shape[-1]).astype("float32")
y_train = y[:, :cut].reshape(-1).astype("float32")
x_test = np.ascontiguousarray(x[:, cut + WINDOW:]).reshape(-1, WINDOW, x.shape[-1]).astype("float32")
y_test = y[:, cut + WINDOW:].reshape(-1).astype("float32")
y_mean, y_std = y_train.mean(), y_train.std()
y_train, y_test = (y_train - y_mean) / y_std, (y_test - y_mean) / y_std
print(x_train.shape, x_test.shape)

train_ds = (tf.data.Dataset.from_tensor_slices((x_train, y_train))
            .shuffle(16384).batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE))
test_ds = (tf.data.Dataset.from_tensor_slices((x_test, y_test))
           .batch(1024).prefetch(tf.data.AUTOTUNE))

model = VolModel()
model.compile(optimizer=keras.optimizers.Adam(5e-4, clipnorm=1.0), loss=gaussian_nll)
history = model.fit(
    train_ds,
    validation_data=test_ds,
    epochs=25,
    verbose=2,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5),
        keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True),
    ],
)
pred = model.predict(test_ds, verbose=0)
print("test RMSE (z):", np.sqrt(np.mean((pred[:, 0] - y_test) ** 2)))
