"""Facts that the checks judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import ToolError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from patchgen.core.library.archive import Archive
    from patchgen.core.patch.pins import Pin
    from patchgen.core.wheel.check.configure import Configuration
    from patchgen.core.wheel.check.homes import Client
    from patchgen.core.wheel.check.site import Site
    from patchgen.core.wheel.check.tools import Tools
    from patchgen.options import Options


@dataclass(frozen=True)
class Facts:
    """The build that is asked for, and what is here for it."""

    options: Options
    pin: Pin
    site: Site
    tools: Tools
    client: Client
    configured: Future[Configuration | None]
    """Run of switchml.cmake, which takes longest; without cmake there is none."""

    @property
    def archive(self) -> Archive | None:
        """The client library; None where it cannot be used."""
        return self.client.archive

    @property
    def simulator(self) -> bool:
        """True where the client library is the simulator."""
        return self.archive is not None and self.archive.simulator

    @property
    def failure(self) -> ToolError | None:
        """Failure of the run of switchml.cmake; waits for its end."""
        error = self.configured.exception()
        return error if isinstance(error, ToolError) else None

    @property
    def configuration(self) -> Configuration | None:
        """Answers of switchml.cmake, or None where there are none; waits for its end."""
        return None if self.failure else self.configured.result()
