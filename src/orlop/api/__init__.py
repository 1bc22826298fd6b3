"""Says what objects are: kinds, schema, defaults, validation, patches, selectors, tables.

Pure, but for the installed models that the schema is built from, for the processor time that bounds
expressions, and for two tables that extensions fill when the process begins. `gangs` reads from a
pod which gang it is in, for all folders that ask: whoever makes, places, submits or runs a pod does
its own part of starting a gang together.
"""
