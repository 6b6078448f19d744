import numpy as np
import pandas as pd
from keras.layers import LSTM, Dense
from keras.models import Sequential
from sklearn.preprocessing import MinMaxScaler

close = pd.read_csv("GOOG.csv")[["Close"]].values
scaled = MinMaxScaler().fit_transform(close)
x, y = [], []
for i in range(60, 1200):
    x.append(scaled[i - 60 : i, 0])
    y.append(scaled[i, 0])
x, y = np.array(x)[..., None], np.array(y)
model = Sequential([LSTM(50, return_sequences=True, input_shape=(60, 1)), LSTM(50), Dense(1)])
model.compile("adam", "mean_squared_error")
model.fit(x, y, epochs=100, batch_size=32)
predicted = []
for i in range(1200, len(scaled)):
    window = scaled[i - 60 : i].reshape(1, 60, 1)
    predicted.append(model.predict(window)[0, 0])
print(np.mean((np.array(predicted) - scaled[1200:, 0]) ** 2))
