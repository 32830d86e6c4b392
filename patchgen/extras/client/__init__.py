"""SwitchML's client library: its source, fixed, compiled and installed as a SWITCHML_HOME."""
