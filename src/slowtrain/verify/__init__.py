"""Proves cures: runs baseline and candidate alternately, each in its own process, and judges the ratio of their times.

``measurement`` runs pairs of processes until their ratio is decided, compares their losses, and proves candidates.
``batch_sizes`` measures memory and throughput at other batch sizes. ``fix`` goes from a diagnosis to a patch with a
measured gain.
"""
