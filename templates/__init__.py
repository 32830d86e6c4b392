"""Templates of the patch: new files, and `hooks/`, the lines added to existing files.

The projects that compile grafts and plugins have folders of their own. A file with the suffix .j2
is rendered; the others are used as they are.
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
