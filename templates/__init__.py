"""The templates of the new files (`files/`) and of the lines added to existing files (`hooks/`).

The projects of checks, grafts and the plugin have folders of their own. A file with the suffix .j2
is rendered; the others are used as they are.
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
