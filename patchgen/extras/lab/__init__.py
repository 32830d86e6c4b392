"""SwitchML's client library, built and mended; the simulator; the software switch; the lab."""
