"""Gives each namespace what it must have, counts what it uses, and empties it."""
