"""Finds causes of slow steps in source files and applies their edits.

lint_run            many files, split over all cores
lint_settings       settings, the search for files
documents           a file as text, edits written back into its bytes
cause_selection     which causes a file can have, decided before it is parsed
file_check          the findings of one file
file_fixes          the edits of one file
hidden_findings     findings of a baseline, ``# slowtrain: ignore`` comments
recording_match     what a recording says about each finding
"""
