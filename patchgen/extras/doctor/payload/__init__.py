"""Files that run in another Python: standard library and torch only, Python 3.6 and newer."""
