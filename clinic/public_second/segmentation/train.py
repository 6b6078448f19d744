from glob import glob

import tensorflow as tf
from dataset import DataLoader

loader = DataLoader(sorted(glob("train/*.jpg")), sorted(glob("train/*.png")))
data = loader.get(shuffle=True)
base = tf.keras.applications.MobileNetV2(input_shape=(512, 512, 3), include_top=False)
model = tf.keras.Sequential([base, tf.keras.layers.Conv2DTranspose(21, 32, 32)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=40)
