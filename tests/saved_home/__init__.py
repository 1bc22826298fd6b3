"""A home folder that an earlier Orlop has written, and what the present one makes of it."""
