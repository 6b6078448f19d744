"""Picture classes from a TFRecord file, with augmentation."""
import os
import tempfile
import time
import numpy as np
import tensorflow as tf


def augment_image(image):
    image = tf.image.random_brightness(image, max_delta=0.2)
    return tf.image.random_flip_left_right(image)


def create_tfrecord_dataset(num_images, output_file):
    with tf.io.TFRecordWriter(output_file) as writer:
        for _ in range(num_images):
            image = np.random.randint(0, 256, size=(64, 64, 3), dtype=np.uint8)
            example = tf.train.Example(features=tf.train.Features(feature={
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[np.random.randint(0, 10)])),
            }))
            writer.write(example.SerializeToString())


def parse(serialized):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(serialized, spec)
    image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), (64, 64, 3))
    return augment_image(tf.cast(image, tf.float32) / 255.0), tf.cast(example["label"], tf.int32)


record = os.path.join(tempfile.gettempdir(), "sample_64.tfrecord")
if not os.path.exists(record):
    create_tfrecord_dataset(640, record)
dataset = tf.data.TFRecordDataset(record)
dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(32)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(64, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(dataset, epochs=1, verbose=2)
start_time = time.time()
model.fit(dataset, epochs=6, initial_epoch=1, verbose=2)
print("WORK", 5 * 640)
print(f"TRAIN_SECONDS {time.time() - start_time:.3f}")
