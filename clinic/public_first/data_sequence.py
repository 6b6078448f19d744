import numpy as np
from skimage.io import imread
from skimage.transform import resize
from tensorflow import keras


class ImageSequence(keras.utils.Sequence):
    def __init__(self, paths, labels, batch_size):
        self.paths, self.labels, self.batch_size = paths, labels, batch_size

    def __len__(self):
        return int(np.ceil(len(self.paths) / self.batch_size))

    def __getitem__(self, idx):
        chosen = slice(idx * self.batch_size, (idx + 1) * self.batch_size)
        x = np.array([resize(imread(name), (200, 200)) for name in self.paths[chosen]])
        return x, np.array(self.labels[chosen])


paths, labels = np.load("paths.npy"), np.load("labels.npy")
model = keras.applications.ResNet50(weights=None, classes=10, input_shape=(200, 200, 3))
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(ImageSequence(paths, labels, 32), epochs=10)
