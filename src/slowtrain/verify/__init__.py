"""Proof: baseline and candidate run in turn, each a process of its own, and what their ratio is worth.

``probes`` runs one process, ``pairs`` runs them in turn until ``statistics`` can tell, ``parity`` holds the losses
against each other, ``fixing`` goes from diagnosis to a patch whose gain was measured.
"""
