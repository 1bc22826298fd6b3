"""Keeps one pod from bound to gone: what is known of it, what happens to it, and how it ends."""
