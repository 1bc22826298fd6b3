"""The control plane as a process: started, put together, stopped."""
