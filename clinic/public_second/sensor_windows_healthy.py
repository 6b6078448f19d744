import numpy as np
import tensorflow as tf
from tensorflow import keras

data = np.load("sensors.npy").astype("float32")
split = int(0.8 * len(data))
train = keras.utils.timeseries_dataset_from_array(data[:split], data[60:split, 0], sequence_length=60, batch_size=256)
val = keras.utils.timeseries_dataset_from_array(data[split:], data[split + 60 :, 0], sequence_length=60, batch_size=256)
model = keras.Sequential([keras.layers.LSTM(32), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, validation_data=val, epochs=10)
