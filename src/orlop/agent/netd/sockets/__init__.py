"""Handles sockets of other processes: addresses, options, messages, ports that are kept."""
