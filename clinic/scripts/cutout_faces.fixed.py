# Face attributes with random erasing, written in numpy.
import time
import numpy as np
import tensorflow as tf

faces = np.random.rand(512, 48, 48, 3).astype(np.float32)
smiling = np.random.randint(0, 2, 512).astype(np.float32)

def erase(img):
    rows = tf.range(48)[None, :]
    corner = tf.random.uniform((12, 2), 0, 40, tf.int32)
    inside_y = (rows >= corner[:, :1]) & (rows < corner[:, :1] + 6)
    inside_x = (rows >= corner[:, 1:]) & (rows < corner[:, 1:] + 6)
    mask = tf.reduce_any(inside_y[:, :, None] & inside_x[:, None, :], axis=0)
    return tf.where(mask[..., None], tf.random.uniform((48, 48, 1)), img)

def augment(img, label):
    return erase(img), label

ds = (tf.data.Dataset.from_tensor_slices((faces, smiling))
      .shuffle(512)
      .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
      .batch(32)
      .prefetch(tf.data.AUTOTUNE))

model = tf.keras.Sequential([
    tf.keras.layers.Input((48, 48, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu'),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1, activation='sigmoid'),
])
model.compile('adam', 'binary_crossentropy')
model.fit(ds, epochs=1, verbose=2)
t0 = time.time()
model.fit(ds, epochs=15, initial_epoch=1, verbose=2)
print('WORK', 14 * 512)
print('TRAIN_SECONDS %.3f' % (time.time() - t0))
