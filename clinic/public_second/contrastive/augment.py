import tensorflow as tf


def color_jitter(x, s=0.5):
    x = tf.image.random_brightness(x, 0.8 * s)
    x = tf.image.random_contrast(x, 1 - 0.8 * s, 1 + 0.8 * s)
    x = tf.image.random_saturation(x, 1 - 0.8 * s, 1 + 0.8 * s)
    return tf.clip_by_value(tf.image.random_hue(x, 0.2 * s), 0, 1)


def two_views(x):
    return color_jitter(tf.image.random_flip_left_right(x)), color_jitter(tf.image.random_flip_left_right(x))
