"""Helpers that several verbs share. The name begins with an underscore, so that it is not listed as a verb."""
