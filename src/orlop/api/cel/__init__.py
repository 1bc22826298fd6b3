"""The Common Expression Language, as Kubernetes speaks it: rules of schemas and policies.

`compile_expression` turns a text into a `Program` once; running it is a call of closures with a
bound on its steps. Expressions see what they are given and can change nothing. Types are checked
when values meet, not beforehand.
"""

from .compiling import Program, compile_expression
from .errors import CelError, CelSyntaxError, CostExceeded

__all__ = ["CelError", "CelSyntaxError", "CostExceeded", "Program", "compile_expression"]
