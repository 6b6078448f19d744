import tensorflow as tf

content = tf.image.decode_jpeg(tf.io.read_file("content.jpg"), channels=3)
content = tf.image.resize(tf.image.convert_image_dtype(content, tf.float32), (512, 512))[tf.newaxis]
vgg = tf.keras.applications.VGG19(include_top=False)
extractor = tf.keras.Model(vgg.input, [vgg.get_layer(n).output for n in ("block1_conv1", "block3_conv1", "block5_conv2")])
goal = extractor(content * 255)
image = tf.Variable(content)
opt = tf.keras.optimizers.Adam(0.02, 0.99, epsilon=1e-1)


@tf.function()
def train_step(image):
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_mean((a - b) ** 2) for a, b in zip(extractor(image * 255), goal)])
    opt.apply_gradients([(tape.gradient(loss, image), image)])
    image.assign(tf.clip_by_value(image, 0.0, 1.0))


for n in range(10):
    for m in range(100):
        train_step(image)
    print(".", end="")
