"""The templates of the new files (`files/`) and of the lines added to existing files (`hooks/`)."""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
