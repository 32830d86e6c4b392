"""Plugin's wheel, made again from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.core.wheel.rebuild.needs import Rebuildable, need_compiler, need_library
from patchgen.extras.install import plugin, provenance
from patchgen.extras.install.plugin import bundle

if TYPE_CHECKING:
    from patchgen.core.wheel.rebuild import Means, Record


def read(record: Record, means: Means) -> Rebuildable:
    """Reads what `plugin build` gets from the command line.

    Raises:
        OptionsError: the record has a value that cannot be used.
    """
    options, environ = record.options(), means.make_environ(record)
    bundled = record.truth("request.bundle")

    def build(directory: str, cache: str) -> str:
        request = plugin.PluginRequest(options, provenance.probe(record, means), cache, environ)
        if bundled:
            return bundle.build(request, directory).path
        return plugin.build(request, directory)

    return Rebuildable(
        (
            need_compiler(record, environ),
            provenance.need_torch(record, means),
            need_library(record, means),
        ),
        build,
    )
