# Face attributes with random erasing, written in numpy.
import time
import numpy as np
import tensorflow as tf

faces = np.random.rand(512, 48, 48, 3).astype(np.float32)
smiling = np.random.randint(0, 2, 512).astype(np.float32)

def erase(img):
    img = img.copy()
    for _ in range(12):
        y, x = np.random.randint(0, 40, 2)
        for dy in range(6):
            for dx in range(6):
                img[y + dy, x + dx] = np.random.rand()
    return img

def augment(img, label):
    img = tf.numpy_function(erase, [img], tf.float32)
    img.set_shape((48, 48, 3))
    return img, label

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
