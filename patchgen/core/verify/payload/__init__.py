"""Files that run in the ranks: standard library and torch only, Python 3.6 and newer."""
