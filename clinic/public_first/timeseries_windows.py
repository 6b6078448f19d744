import numpy as np
import pandas as pd
import tensorflow as tf

df = pd.read_csv("temps.csv")
values = df["Temp"].values.astype("float32")


def windowed_dataset(series, window_size, batch_size, shuffle_buffer):
    dataset = tf.data.Dataset.from_tensor_slices(series)
    dataset = dataset.window(window_size + 1, shift=1, drop_remainder=True)
    dataset = dataset.flat_map(lambda window: window.batch(window_size + 1))
    dataset = dataset.shuffle(shuffle_buffer)
    dataset = dataset.map(lambda window: (window[:-1], window[-1]))
    return dataset.batch(batch_size).prefetch(1)


train_set = windowed_dataset(values[:2500], 60, 32, 1000)
model = tf.keras.Sequential([tf.keras.layers.Conv1D(64, 3, padding="causal", input_shape=[None, 1]), tf.keras.layers.LSTM(64), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(1e-5, 0.9), tf.keras.losses.Huber())
model.fit(train_set, epochs=500)

forecast = []
for time in range(len(values) - 60):
    forecast.append(model.predict(values[time : time + 60][np.newaxis]))
print(np.mean(np.abs(np.array(forecast)[2440:, 0, 0] - values[2500:])))
