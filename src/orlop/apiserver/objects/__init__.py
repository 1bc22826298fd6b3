"""Prepares an object on its way in: its kind, its fields, its managers, its stored form."""
