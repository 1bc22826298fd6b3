"""Runs one pod from bound to gone: bound, prepared, submitted, followed, ended."""
