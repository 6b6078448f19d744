import cv2
import numpy as np
import tensorflow as tf


def read_image(path):
    x = cv2.imread(path.decode(), cv2.IMREAD_COLOR)
    return (cv2.resize(x, (256, 256)) / 255.0).astype(np.float32)


def read_mask(path):
    x = cv2.imread(path.decode(), cv2.IMREAD_GRAYSCALE)
    return np.expand_dims((cv2.resize(x, (256, 256)) / 255.0).astype(np.float32), -1)


def tf_parse(x, y):
    def _parse(x, y):
        return read_image(x), read_mask(y)

    x, y = tf.numpy_function(_parse, [x, y], [tf.float32, tf.float32])
    x.set_shape([256, 256, 3])
    y.set_shape([256, 256, 1])
    return x, y


def tf_dataset(x, y, batch=8):
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.map(tf_parse)
    dataset = dataset.batch(batch)
    return dataset.repeat()
