"""What runs in the job: the pod's sandbox, its supervisor, its logs, its line home.

One per pod, started by the engine as a single file (`build.py`) with nothing but the standard
library and `wellknown`. It takes no decision but those of the pod's own life, and never needs the
control plane to go on.
"""
