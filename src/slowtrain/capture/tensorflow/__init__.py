"""Patches of TensorFlow: functions, data sets, sessions."""
