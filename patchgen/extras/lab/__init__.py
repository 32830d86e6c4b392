"""Lab: simulator, software switch, and ranks that are connected to the switch."""
