"""Nothing: what is registered there no rank of a test uses, and it takes long to import."""
