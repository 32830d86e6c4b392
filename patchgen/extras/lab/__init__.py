"""Lab: simulator, software switch, and ranks that are connected to the switch."""

import os

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
"""Directory of headers that the simulator and the software switch share."""
