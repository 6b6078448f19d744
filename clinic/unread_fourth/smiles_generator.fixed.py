#!/usr/bin/env python
# coding: utf-8

# # Character model for SMILES strings

# In[1]:

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(7)


# In[2]:

ALPHABET = "^$CNOSPFIclnosBr()[]=#@+-123456789/\\H"
CHARS = sorted(set(ALPHABET))
MAXLEN = 120
FRAGMENTS = ["C", "CC", "c1ccccc1", "N", "O", "C(=O)O", "C(=O)N", "S(=O)(=O)", "c1ccncc1",
             "Cl", "F", "C#N", "OC", "N1CCOCC1", "C1CC1", "[C@@H]", "CBr"]


def fake_library(n, rng):
    """Stand-in for the ChEMBL dump: fragments glued together, 8 to 25 of them."""
    sizes = rng.integers(8, 26, size=n)
    return ["^" + "".join(rng.choice(FRAGMENTS, size=k)) + "$" for k in sizes]


lookup = layers.TextVectorization(
    standardize=None, split="character", vocabulary=CHARS,
    output_mode="int", output_sequence_length=MAXLEN + 1,
)
library = fake_library(40_000, np.random.default_rng(0))
codes = lookup(tf.constant(library)).numpy().astype("int32")
print(codes.shape, codes.max())


# In[3]:

PRIOR = {
    "vocab": len(lookup.get_vocabulary()),
    "embed": 64,
    "stack": [
        {"units": 384},
        {"units": 384},
        {"units": 256},
    ],
    # settings shared by every level of the stack (Cho et al., 2014)
    "shared": {"return_sequences": True, "reset_after": True, "dropout": 0.1},
    "lr": 1e-3,
    "batch": 256,
    "epochs": 40,
}


def build(spec):
    tokens = keras.Input((None,), dtype="int32")
    h = layers.Embedding(spec["vocab"], spec["embed"])(tokens)
    for i, level in enumerate(spec["stack"]):
        h = layers.GRU(**{**spec["shared"], **level}, name=f"level_{i}")(h)
        h = layers.LayerNormalization()(h)
    logits = layers.Dense(spec["vocab"])(h)
    model = keras.Model(tokens, logits)
    model.compile(
        optimizer=keras.optimizers.Adam(spec["lr"], clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    return model


# In[4]:

def windows(a, batch, training):
    ds = tf.data.Dataset.from_tensor_slices((a[:, :-1], a[:, 1:]))
    if training:
        ds = ds.shuffle(len(a))
    return ds.batch(batch, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


cut = int(0.95 * len(codes))
model = build(PRIOR)
model.summary()
history = model.fit(
    windows(codes[:cut], PRIOR["batch"], True),
    validation_data=windows(codes[cut:], PRIOR["batch"], False),
    epochs=PRIOR["epochs"],
    callbacks=[keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5)],
    verbose=2,
)


# In[5]:

print("best validation loss:", min(history.history["val_loss"]))
model.save_weights("smiles_prior.weights.h5")
