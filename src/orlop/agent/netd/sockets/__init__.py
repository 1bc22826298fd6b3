"""Answers socket, bind, listen and getsockname; keeps ports, reads addresses and messages."""
