import tensorflow as tf
from tensorflow.keras.callbacks import Callback, TensorBoard

(x, y), _ = tf.keras.datasets.cifar10.load_data()
x = x / 255.0


class SaveEachBatch(Callback):
    def on_batch_end(self, batch, logs=None):
        self.model.save_weights("weights.h5")


model = tf.keras.applications.MobileNet(weights=None, classes=10, input_shape=(32, 32, 3))
model.compile("adam", "sparse_categorical_crossentropy")
board = TensorBoard("logs", histogram_freq=1, write_images=True)
model.fit(x, y, batch_size=64, epochs=20, callbacks=[board, SaveEachBatch()])
