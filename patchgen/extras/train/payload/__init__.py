"""Files that run in somebody else's Python, beside the user's script."""
