"""SwitchML in an installed torch: the graft, the plugin, and what an interpreter has."""
