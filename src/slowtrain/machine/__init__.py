"""Reads facts about this computer and takes cheap samples of its load. Never imports TensorFlow.

``host`` reads what does not change during a run: cores, limits, memory, GPUs, settings. ``samples`` reads what does
change: load, memory, disk, GPU. ``tables`` holds the rules, ``checks`` judges facts by them.

All facts are plain JSON, so that a file from another computer can be judged here. A fact that could not be read is None
or absent, never zero.
"""
