"""SwitchML's client library: its source, mended, compiled and installed as a SWITCHML_HOME."""
