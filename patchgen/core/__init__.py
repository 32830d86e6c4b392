"""Core: options and a pin become a patch, a patched tree, and a verified wheel."""
