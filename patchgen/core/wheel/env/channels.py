"""Channels that packages come from: a name, a URL, or a name for a URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from patchgen.errors import OptionsError

# conda's own meaning of the name; its members share one rank.
_GROUPS = {"defaults": ("pkgs/main", "pkgs/r")}
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)=(?P<url>[a-z0-9+]+://.*)", re.DOTALL)


@dataclass(frozen=True)
class Channel:
    """A channel, under the name that `channel::package` uses."""

    name: str
    locations: tuple[str, ...]


def parse(text: str) -> Channel:
    """Reads a channel as an environment file or a command line gives it.

    Raises:
        OptionsError: it holds a password, which would end up in the lock.
    """
    named = _NAMED.fullmatch(text)
    name, location = (named["name"], named["url"]) if named else (text, text)
    parts = urlsplit(location)
    if "@" in parts.netloc:
        raise OptionsError(
            f"channel on {parts.hostname}: its URL holds a user name or password, which a lock "
            "would show; put it into the credentials file of rattler"
        )
    return Channel(name, _GROUPS.get(location, (location.rstrip("/"),)))
