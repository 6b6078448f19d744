"""The input pipelines of a script: their operations and elements."""
