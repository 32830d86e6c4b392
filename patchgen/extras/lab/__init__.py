"""SwitchML's client library, built and fixed; the simulator; the software switch; the lab."""
