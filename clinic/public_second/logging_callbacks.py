import matplotlib.pyplot as plt
import tensorflow as tf
from tensorflow.keras.callbacks import Callback, ModelCheckpoint


class PlotLosses(Callback):
    def on_train_begin(self, logs=None):
        self.losses = []

    def on_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        plt.clf()
        plt.plot(self.losses)
        plt.savefig("loss.png")


(x, y), _ = tf.keras.datasets.mnist.load_data()
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
checkpoint = ModelCheckpoint("weights.{epoch}.h5", save_freq=1)
model.fit(x / 255.0, y, epochs=5, callbacks=[PlotLosses(), checkpoint])
