from tensorflow import keras


def build(config):
    model = keras.Sequential([keras.layers.Dense(config["units"], activation="relu"), keras.layers.Dense(10, activation="softmax")])
    model.compile(config["optimizer"], "sparse_categorical_crossentropy", run_eagerly=config["debug"])
    return model
