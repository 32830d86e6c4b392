"""The templates of the new files (`files/`) and of the lines added to existing files (`hooks/`).

The projects of checks, grafts and the plugin have folders of their own. Python modules that go into
the plugin's wheel as they are end with .py alone.
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
