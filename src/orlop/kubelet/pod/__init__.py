"""One pod's whole life: bound, prepared, submitted, followed, ended."""
