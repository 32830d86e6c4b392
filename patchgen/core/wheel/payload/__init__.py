"""Files of a build that run in another Python: standard library only, Python 3.6 and newer."""
