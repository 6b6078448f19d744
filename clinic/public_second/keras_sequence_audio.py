import librosa
import numpy as np
from tensorflow import keras


class AudioSequence(keras.utils.Sequence):
    def __init__(self, files, labels, batch=16):
        self.files, self.labels, self.batch = files, labels, batch

    def __len__(self):
        return len(self.files) // self.batch

    def __getitem__(self, i):
        out = []
        for name in self.files[i * self.batch : (i + 1) * self.batch]:
            wave, rate = librosa.load(name, sr=16000, duration=4)
            out.append(librosa.feature.melspectrogram(y=wave, sr=rate)[..., None])
        return np.stack(out), self.labels[i * self.batch : (i + 1) * self.batch]


files, labels = np.load("files.npy"), np.load("labels.npy")
model = keras.Sequential([keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(AudioSequence(files, labels), epochs=50)
