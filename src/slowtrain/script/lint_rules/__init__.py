"""Questions about a script that the lint rules of several causes share. A rule itself is in the folder of its cause.

spots             findings at nodes
dataset_stages    stages of data sets
sample_counts     samples and steps of ``fit``
step_code         code of training steps, loops between them
graph_code        tf.functions, loops that a graph unrolls
keras_names       names of Keras' classes and methods
worker_strategies distribution strategies that fail
"""
