"""What functions of Python, NumPy, TensorFlow, Keras and pandas return."""
