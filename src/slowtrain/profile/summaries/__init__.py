"""Totals per step: ops, device time, allocators, tf.data stages and pipelines."""
