"""Policies: rules in CEL that users write, evaluated here without anyone being asked.

`compiled` reads policies and their bindings, `params` finds the objects that they are parametrised
with, `evaluation` runs what they share; `validating` and `mutating` are the plugins, `typechecking`
says what is wrong with a policy in its status.
"""

from .mutating import MutatingPolicies
from .validating import ValidatingPolicies

__all__ = ["MutatingPolicies", "ValidatingPolicies"]
