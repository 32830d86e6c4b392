"""Client library that a build links with: its homes, its archive, switchml.cfg."""
