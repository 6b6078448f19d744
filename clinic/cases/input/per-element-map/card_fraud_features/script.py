# coding: utf-8
# Card fraud detection - lab notebook exported with nbconvert

# In[1]:
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

tf.random.set_seed(7)
rng = np.random.default_rng(7)

N_TRANSACTIONS = 50000
BATCH_SIZE = 256
EPOCHS = 4

COLUMNS = ["amount", "hour", "merchant_risk", "card_age_days", "balance", "n_last_24h", "distance_km"]


# In[2]:
def simulate_transactions(n):
    amount = rng.gamma(1.5, 40.0, n)
    hour = rng.uniform(0, 24, n)
    merchant_risk = rng.beta(2, 8, n)
    card_age = rng.uniform(1, 3000, n)
    balance = rng.gamma(2.0, 900.0, n)
    n_last = rng.poisson(2.0, n)
    distance = rng.exponential(12.0, n)
    score = 0.01 * amount + 4 * merchant_risk + 0.3 * n_last + 0.02 * distance - 0.0004 * card_age
    score += 0.8 * ((hour < 5) | (hour > 23))
    is_fraud = (score + rng.normal(0, 0.5, n) > 3.2).astype("float32")
    raw = np.stack([amount, hour, merchant_risk, card_age, balance, n_last, distance], axis=1)
    return raw.astype("float32"), is_fraud


raw_rows, is_fraud = simulate_transactions(N_TRANSACTIONS)
print("transactions:", raw_rows.shape, "fraud rate: %.3f" % is_fraud.mean())


# In[3]:
def engineer(row, label):
    amount, hour, risk, age, balance, n_last, distance = tf.unstack(row, num=len(COLUMNS), axis=-1)
    amount = amount * (1.0 + 0.02 * tf.random.normal(tf.shape(amount)))
    angle = hour * (2.0 * np.pi / 24.0)
    features = tf.stack(
        [
            tf.math.log1p(tf.nn.relu(amount)),
            tf.sin(angle),
            tf.cos(angle),
            risk,
            tf.sqrt(age) / 50.0,
            amount / (balance + 1.0),
            tf.math.log1p(n_last),
            tf.math.log1p(distance),
        ],
        axis=-1,
    )
    return features, label


train_ds = tf.data.Dataset.from_tensor_slices((raw_rows, is_fraud))
train_ds = train_ds.shuffle(8192, seed=1)
train_ds = train_ds.map(engineer, num_parallel_calls=tf.data.AUTOTUNE)
train_ds = train_ds.batch(BATCH_SIZE, drop_remainder=True)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)


# In[4]:
model = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(64, activation="relu"),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.summary()


# In[5]:
t0 = time.time()
history = model.fit(train_ds, epochs=EPOCHS, verbose=2)
train_seconds = time.time() - t0

print("final accuracy: %.3f" % history.history["accuracy"][-1])
print("WORK", EPOCHS * (N_TRANSACTIONS // BATCH_SIZE) * BATCH_SIZE)
print("TRAIN_SECONDS %.3f" % train_seconds)
