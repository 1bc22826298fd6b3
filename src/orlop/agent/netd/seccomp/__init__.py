"""The kernel's side: the filter, its notifications, and the process that made a call."""
