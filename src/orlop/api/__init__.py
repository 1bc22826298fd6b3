"""Says what objects are: kinds, schema, defaults, validation, patches, selectors, tables. Pure."""
