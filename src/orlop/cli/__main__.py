"""`python -m orlop.cli`: how the control plane starts itself, whatever the console script is."""

from . import main

main()
