"""Linux below Python: system calls, processes, files that others may change meanwhile."""
