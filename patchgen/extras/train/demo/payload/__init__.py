"""Script that the ranks of the demo run: standard library and torch only."""
