"""Vocabulary without SwitchML: programs, files, git, interpreters, wheels, this machine."""
