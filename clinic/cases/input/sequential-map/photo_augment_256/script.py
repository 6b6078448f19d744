# Image classification with brightness and flip augmentation on 256x256 photos.
import numpy as np
import tensorflow as tf
import time

def augment_image(image):
    image = tf.image.random_brightness(image, max_delta=0.2)
    image = tf.image.random_flip_left_right(image)
    return image

def load_data(batch_size, num_images=400):
    images = np.random.randint(0, 256, size=(num_images, 256, 256, 3), dtype=np.uint8)
    labels = np.random.randint(0, 10, size=(num_images,))
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))

    def process_example(image, label):
        image = tf.cast(image, tf.float32) / 255.0
        image = tf.image.adjust_gamma(image, 0.8)
        image = augment_image(image)
        return image, label

    dataset = dataset.map(process_example).batch(batch_size)
    return dataset

batch_size = 8
dataset = load_data(batch_size)

model = tf.keras.Sequential([
    tf.keras.layers.Input((256, 256, 3)),
    tf.keras.layers.Conv2D(4, 5, strides=5, activation='relu'),
    tf.keras.layers.MaxPooling2D(4),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation='softmax'),
])
model.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])

model.fit(dataset, epochs=1)
start_time = time.time()
model.fit(dataset, epochs=5, initial_epoch=1)
end_time = time.time()
print('WORK', 4 * 400)
print(f"TRAIN_SECONDS {end_time - start_time:.3f}")
