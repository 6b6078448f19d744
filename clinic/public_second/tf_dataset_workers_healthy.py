from tensorflow.keras.applications import ResNet50
from tensorflow.keras.preprocessing.image import ImageDataGenerator

gen = ImageDataGenerator(rescale=1 / 255.0, shear_range=0.2, horizontal_flip=True)
train = gen.flow_from_directory("data/train", target_size=(224, 224), batch_size=64)
model = ResNet50(weights=None, classes=100)
model.compile("sgd", "categorical_crossentropy")
model.fit(train, epochs=90, workers=8, use_multiprocessing=True, max_queue_size=32)
