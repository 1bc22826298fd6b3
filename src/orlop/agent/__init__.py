"""Runs in the job: the pod's sandbox, its supervisor, its logs, its connection to the kubelet.

One per pod, started by the engine as a single file (`build.py`) with nothing but the standard
library and `wellknown`. Its decisions are those of the pod's own lifecycle, and it goes on without
the control plane.
"""
