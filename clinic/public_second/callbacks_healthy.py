import tensorflow as tf
from tensorflow import keras


class LossHistory(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs.get("loss"))


(x, y), (xt, yt) = keras.datasets.cifar10.load_data()
model = keras.applications.MobileNetV2(weights=None, classes=10, input_shape=(32, 32, 3))
model.compile("adam", "sparse_categorical_crossentropy")
callbacks = [LossHistory(), keras.callbacks.TensorBoard("logs"), keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True), keras.callbacks.EarlyStopping(patience=3)]
model.fit(x / 255.0, y, batch_size=128, epochs=30, validation_data=(xt / 255.0, yt), callbacks=callbacks)
