"""What an object is: kinds, schema, defaults, validation, patches, selectors, tables. Pure."""
