"""What runs inside the user's process, as a guest: it records, and never breaks or slows the script.

The only package that imports TensorFlow or Keras, and it does so only after the user's
script has: every patch hangs on a post-import hook. Reading a recording needs none of this.
"""
