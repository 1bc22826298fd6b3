"""Says what objects are: kinds, schema, defaults, validation, patches, selectors, tables.

Pure, but for the installed models that the schema is built from, and for the processor time that
bounds expressions.
"""
