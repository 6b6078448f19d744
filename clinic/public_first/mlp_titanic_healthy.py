import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tensorflow import keras

df = pd.read_csv("titanic.csv").dropna()
x = StandardScaler().fit_transform(df[["Age", "Fare", "Pclass"]])
x_train, x_test, y_train, y_test = train_test_split(x, df.Survived.values, test_size=0.2)
model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, epochs=50, batch_size=32, validation_data=(x_test, y_test), verbose=0)
print(model.evaluate(x_test, y_test))
print((model.predict(x_test) > 0.5).astype(int)[:10])
