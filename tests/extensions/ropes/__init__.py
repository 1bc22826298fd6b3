"""Ropes (rig.example): a made-up kind, as the next one would come; listed by tests alone."""
