"""Facts of this computer: processors, memory, GPUs, limits, libraries, environment."""
