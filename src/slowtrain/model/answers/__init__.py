"""The answers of the verbs, as frozen values."""
