"""SwitchML in an installed torch: graft, plugin, and a summary of both."""
