"""Nouns that the recorder and a ``Monitor`` need too. They import no package, as they are in the user's process."""
