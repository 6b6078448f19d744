"""Facts about this computer, and cheap samples of what it is doing. Never imports TensorFlow.

    facts.facts()            what does not change during a run: cores, limits, memory, GPUs, settings
    sample.Sampler().sample()   what does: load, memory, disk, GPU

Everything is plain JSON, so that another machine's facts can be saved there and read here.
A fact that could not be read is None or absent, never zero.
"""
