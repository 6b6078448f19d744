"""Proves cures: runs baseline and candidate alternately, each in its own process, and judges the ratio of their times.

``measurement`` runs pairs of processes until their ratio is decided, and compares their losses. ``candidates`` holds
edited files and proves one candidate. ``batch_sizes`` measures memory and throughput at other batch sizes. ``fix`` goes
from a diagnosis to a patch with a measured gain.
"""
