"""Code that runs inside the user's process and records it. It must never break or noticeably slow the script.

This is the only package that imports TensorFlow, Keras or JAX. It does so only after the user's script has, because
every patch is installed by a post-import hook. Reading a recording does not need this package.
"""
