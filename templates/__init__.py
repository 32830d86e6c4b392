"""Files of the patch: new files, and `hooks/`, the lines that are inserted into existing files.

Grafts and plugins have projects in folders of their own. Files with the suffix .j2 are rendered by
Jinja; all others are used as they are.
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
