"""What knows nothing of SwitchML: programs, files, git, interpreters, wheels, this machine."""
