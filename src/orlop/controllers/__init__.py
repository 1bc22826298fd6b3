"""The controllers: one file or folder for each, all of one shape, run by the manager."""
