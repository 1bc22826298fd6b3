"""The home folder: who lives in it, its record, its archive, its removal."""
