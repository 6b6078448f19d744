import tensorflow as tf
import utils

model = tf.keras.applications.MobileNetV2(weights=None, classes=400, input_shape=(416, 416, 3))
train = utils.load_tfrecord_dataset("voc2012_train*.tfrecord")
train = train.shuffle(buffer_size=512)
train = train.batch(8).prefetch(tf.data.AUTOTUNE)
optimizer = tf.keras.optimizers.Adam(1e-3)
avg_loss = tf.keras.metrics.Mean("loss", dtype=tf.float32)
for epoch in range(1, 10):
    for batch, (images, labels) in enumerate(train):
        with tf.GradientTape() as tape:
            outputs = model(images, training=True)
            loss = tf.reduce_mean(tf.square(outputs - labels))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        print(epoch, batch, loss.numpy())
        avg_loss.update_state(loss)
    avg_loss.reset_state()
