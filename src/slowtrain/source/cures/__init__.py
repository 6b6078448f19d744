"""Edits of the user's script, in folders by the family of the cause that they cure."""
