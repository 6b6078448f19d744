import numpy as np
import pandas as pd
from tensorflow import keras

df = pd.read_csv("movielens.csv")
user, item = keras.Input((1,)), keras.Input((1,))
u = keras.layers.Flatten()(keras.layers.Embedding(df.user.nunique(), 32)(user))
v = keras.layers.Flatten()(keras.layers.Embedding(df.item.nunique(), 32)(item))
out = keras.layers.Dense(1)(keras.layers.Concatenate()([u, v]))
model = keras.Model([user, item], out)
model.compile("adam", "mse")
model.fit([df.user.values, df.item.values], df.rating.values, batch_size=512, epochs=5, validation_split=0.1)
