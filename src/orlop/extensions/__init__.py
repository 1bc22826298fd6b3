"""The kinds that are not Kubernetes' own: one folder each, and one list of all of them.

A folder has the definitions of its kinds, their controllers, and an `extension.py` that says what
the rest of Orlop has to know of them; `registry.py` lists the folders, and imports none that the
settings leave out. `training` is no kind: it is what the jobs of kubeflow.org have in common.
"""
