"""Which harp string was plucked? Residual 1-d convnet; a smoke run of the training setup."""
import numpy as np
import keras
from keras import layers

STRINGS = 22
SAMPLES = 256
STEPS = 40
BATCH = 16


def pluck(n, seed=360):
    rng = np.random.default_rng(seed)
    which = rng.integers(0, STRINGS, n)
    t = np.arange(SAMPLES)[None] / 4000
    f = 110 * 2 ** (which[:, None] / 7)
    sound = np.exp(-8 * t) * np.sin(2 * np.pi * f * t + rng.uniform(0, 6, (n, 1)))
    sound += rng.normal(0, 0.05, sound.shape)
    return sound[..., None].astype("float32"), which.astype("int32")


def residual(x, filters, dilation):
    y = layers.Conv1D(filters, 3, padding="same", dilation_rate=dilation)(x)
    y = layers.LayerNormalization()(y)
    y = layers.Activation("gelu")(y)
    y = layers.Conv1D(filters, 1)(y)
    gate = layers.Dense(filters, activation="sigmoid")(layers.GlobalAveragePooling1D()(y))
    y = layers.Multiply()([y, layers.Reshape((1, filters))(gate)])
    return layers.Add()([x, y])


def harp_net(blocks=7):
    inp = keras.Input((SAMPLES, 1))
    x = layers.Conv1D(16, 7, strides=4, padding="same")(inp)
    for k in range(blocks):
        x = residual(x, 16, 2 ** (k % 3))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(STRINGS)(x))


def main():
    keras.utils.set_random_seed(360)
    sound, which = pluck(BATCH * STEPS)
    net = harp_net()
    net.compile(
        optimizer=keras.optimizers.Adam(2e-3, clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    history = net.fit(sound, which, batch_size=BATCH, epochs=2, verbose=2)
    print("loss", history.history["loss"])


if __name__ == "__main__":
    main()
