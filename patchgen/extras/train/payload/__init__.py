"""Files that run in a Python of the user, beside the user's script."""
