"""Train from a TFRecord file of JPEG pictures, with augmentation in the parse function."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf


def augment_image(image):
    image = tf.image.random_brightness(image, max_delta=0.2)
    return tf.image.random_flip_left_right(image)


def create_tfrecord(output_file, num_images):
    with tf.io.TFRecordWriter(output_file) as writer:
        for _ in range(num_images):
            image = tf.image.resize(np.random.randint(0, 256, size=(16, 16, 3)).astype("float32"), (240, 240))
            image = tf.io.encode_jpeg(tf.cast(image, tf.uint8)).numpy()
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[np.random.randint(0, 10)])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def parse(serialized):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(serialized, spec)
    image = tf.io.decode_jpeg(example["image"], channels=3)
    image = tf.image.random_crop(image, (80, 80, 3))
    image = augment_image(tf.cast(image, tf.float32) / 255.0)
    return image, example["label"]


path = os.path.join(tempfile.gettempdir(), "pictures_240.tfrecord")
COUNT = 600
if not os.path.exists(path):
    create_tfrecord(path, COUNT)
dataset = tf.data.TFRecordDataset(path)
dataset = dataset.map(parse)
dataset = dataset.batch(16)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((80, 80, 3)),
    tf.keras.layers.Conv2D(8, 4, strides=4, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
model.fit(dataset, epochs=1, verbose=2)
start_time = time.time()
model.fit(dataset, epochs=18, initial_epoch=1, verbose=2)
print("WORK", 17 * COUNT)
print(f"TRAIN_SECONDS {time.time() - start_time:.3f}")
