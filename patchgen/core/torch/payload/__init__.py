"""Files that run in somebody else's Python: standard library only, Python 3.6 and newer."""
