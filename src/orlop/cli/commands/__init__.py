"""`orlop` and its commands: one file each."""
