import numpy as np
from models import build

config = {"units": 128, "optimizer": "adam", "debug": True}
x, y = np.load("x.npy"), np.load("y.npy")
build(config).fit(x, y, epochs=20, batch_size=64)
