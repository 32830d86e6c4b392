"""Doctor: find which part of the way to the switch fails, on which host, and what to do.

Runs in every rank as the package `switchml_doctor`. It is installed with the plugin, but is a
package of its own, because the plugin cannot be imported with another torch. Runs under Python 3.6
and newer with any torch since 1.7, and imports only its own modules.
"""

import os

PACKAGE = "switchml_doctor"


def read_sources() -> "dict[str, str]":
    """Return the texts of the modules of `switchml_doctor`, by path in a wheel."""
    directory = os.path.dirname(__file__)
    found = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".py"):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                found[f"{PACKAGE}/{name}"] = file.read()
    return found
