"""River stage six hours ahead from upstream gauges."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import Input, Model
from tensorflow.keras.callbacks import EarlyStopping
from tensorflow.keras.layers import GRU, Dense, Dropout

LOOKBACK = 360
LEAD = 6
GAUGES = 9
BATCH = 128


def hydrograph(hours=24 * 365 * 3):
    rng = np.random.RandomState(3)
    rain = rng.gamma(0.3, 2.0, (hours, GAUGES))
    stage = np.zeros((hours, GAUGES))
    for g in range(GAUGES):
        kernel = np.exp(-np.arange(96) / (10.0 + 3 * g))
        stage[:, g] = np.convolve(rain[:, g], kernel)[:hours]
    stage = (stage - stage.mean(0)) / stage.std(0)
    return stage.astype("float32")


def sequences(stage):
    target = stage[LOOKBACK + LEAD - 1:, 0]
    return tf.keras.utils.timeseries_dataset_from_array(
        stage[:-LEAD], target, sequence_length=LOOKBACK, batch_size=BATCH, shuffle=True)


def build_model():
    inp = Input((LOOKBACK, GAUGES))
    x = GRU(128, return_sequences=True, recurrent_activation="hard_sigmoid")(inp)
    x = Dropout(0.2)(x)
    x = GRU(64, recurrent_activation="hard_sigmoid")(x)
    x = Dense(32, activation="relu")(x)
    out = Dense(1, activation="linear")(x)
    model = Model(inputs=inp, outputs=out)
    model.compile(loss="mse", optimizer="rmsprop", metrics=["mae"])
    return model


def main():
    stage = hydrograph()
    split = int(len(stage) * 0.8)
    train_ds, val_ds = sequences(stage[:split]), sequences(stage[split:])

    model = build_model()
    model.summary()
    stop = EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True)
    hist = model.fit(train_ds, validation_data=val_ds, epochs=15, callbacks=[stop], verbose=2)
    print("best val mae:", min(hist.history["val_mae"]))


if __name__ == "__main__":
    main()
