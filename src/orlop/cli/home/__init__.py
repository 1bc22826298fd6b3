"""The home folder: its lock, its record, its archive, its removal."""
