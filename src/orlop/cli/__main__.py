"""Runs `python -m orlop.cli`: how the control plane starts itself, without the console script."""

from . import main

main()
