"""The SwitchML client library: what an archive was built with, its configuration, the simulator."""
