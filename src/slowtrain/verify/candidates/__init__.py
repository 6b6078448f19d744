"""Candidates: edits and patches, and the proof of one."""
