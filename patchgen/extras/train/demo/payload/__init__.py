"""Script that the ranks of the demo run; imports the standard library and torch only."""
