"""A training script as text: one file, its navigation, the interpreter, and what causes share of it.

text          one file: its text, its tree, edits that keep every other byte
navigation    names, scopes, calls, classes; other files of the project
interpreter   runs a script over abstract values: domain, library, engine
properties    what a function, loop or model does or may do
pipelines     tf.data pipelines
locations     from a recording to lines of the script
"""
