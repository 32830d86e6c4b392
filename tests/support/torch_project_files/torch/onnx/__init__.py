"""Nothing: no rank of a test exports a model, and the exporter takes long to import."""
