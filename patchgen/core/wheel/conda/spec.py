"""Environment file: channels, dependencies, and settings of this tool.

The key `x-switchml`, which other tools ignore, has `link_scripts`, the packages whose post-link
script may run; `required_files`, paths in the finished prefix; and `virtual_packages`, which the
solver assumes about the machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml

from patchgen.errors import OptionsError, file_errors
from patchgen.system import files

KEY = "x-switchml"
DEFAULT_PLATFORM = "linux-64"

_PLATFORM = re.compile(r"linux-[a-z0-9]+")
_MACHINES = {"64": "x86_64"}
_BASE = {"glibc": "2.17", "linux": "3.10", "unix": "0"}  # manylinux2014: the oldest supported
_KNOWN = {"name", "channels", "dependencies", KEY}
_OWN = {"link_scripts", "required_files", "virtual_packages"}


# conda's own meaning of the name; both channels have the same priority.
_GROUPS = {"defaults": ("pkgs/main", "pkgs/r")}
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)=(?P<url>[a-z0-9+]+://.*)", re.DOTALL)


@dataclass(frozen=True)
class Channel:
    """A channel, under its name in `channel::package`."""

    name: str
    locations: tuple[str, ...]


@dataclass(frozen=True)
class EnvironmentFile:
    """Contents of an environment file."""

    path: str
    channels: tuple[str, ...]
    dependencies: tuple[str, ...]
    link_scripts: tuple[str, ...] = ()
    required_files: tuple[str, ...] = ()
    virtual_packages: tuple[tuple[str, str], ...] = ()

    def content_hash(self, platform: str) -> str:
        """Return the SHA-256 of what a lock depends on."""
        content = [
            self.channels, self.dependencies, self.link_scripts, self.required_files,
            self.virtual_packages,
        ]  # fmt: skip
        return files.digest([platform, *content])

    def virtual(self, platform: str) -> dict[str, str]:
        """Return versions of virtual packages (VERSION[=BUILD]) for the solver.

        An empty version in the file removes a default one.

        Raises:
            OptionsError: `platform` is not one of Linux.
        """
        if not _PLATFORM.fullmatch(platform):
            raise OptionsError(f"platform {platform}: not of Linux; write it as {DEFAULT_PLATFORM}")
        machine = platform.removeprefix("linux-")
        archspec = f"1={_MACHINES.get(machine, machine)}"
        merged = {**_BASE, "archspec": archspec, **dict(self.virtual_packages)}
        return {name: merged[name] for name in sorted(merged) if merged[name]}


def load(path: str) -> EnvironmentFile:
    """Read an environment file.

    Raises:
        OptionsError: it is no environment file, or its contents cannot be locked.
        FileError: it cannot be read.
    """
    with file_errors(), open(path, encoding="utf-8") as file:
        try:
            data = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise OptionsError(f"{path}: no YAML: {error}") from error
    if not isinstance(data, dict):
        raise OptionsError(f"{path}: no environment file: holds no keys")
    unknown = sorted(map(str, set(data) - _KNOWN))
    if unknown:
        raise OptionsError(f"{path}: {', '.join(unknown)}: unknown; known are {_listed(_KNOWN)}")
    own = data.get(KEY) or {}
    if not isinstance(own, dict) or set(own) - _OWN:
        raise OptionsError(f"{path}: {KEY}: may hold only {_listed(_OWN)}")
    virtual = own.get("virtual_packages") or {}
    if not isinstance(virtual, dict) or not all(isinstance(v, str) for v in virtual.values()):
        raise OptionsError(f"{path}: {KEY}: virtual_packages: write versions in quotes")
    environment = EnvironmentFile(
        path=path,
        channels=_strings(path, "channels", data.get("channels")),
        dependencies=_strings(path, "dependencies", data.get("dependencies")),
        link_scripts=_strings(path, "link_scripts", own.get("link_scripts")),
        required_files=_strings(path, "required_files", own.get("required_files")),
        virtual_packages=tuple(sorted((str(k).lstrip("_"), v) for k, v in virtual.items())),
    )
    if not environment.dependencies:
        raise OptionsError(f"{path}: dependencies: there are none")
    for inside in environment.required_files:
        if not inside.isprintable() or not {"", ".", ".."}.isdisjoint(inside.split("/")):
            raise OptionsError(
                f"{path}: required_files: {inside!r}: write a path in the prefix, such as bin/nvcc"
            )
    return environment


def _strings(path: str, key: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401  # YAML
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict):
            raise OptionsError(
                f"{path}: {key}: {_listed(item)}: only conda packages can be locked; "
                "install what comes from elsewhere into the finished environment"
            )
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise OptionsError(f"{path}: {key}: must be a list of strings")
    return tuple(item for item in value if item != "nodefaults")


def _listed(names: Any) -> str:  # noqa: ANN401  # any strings
    return ", ".join(sorted(map(str, names)))


def parse_channel(text: str) -> Channel:
    """Parse a channel of an environment file or of the command line.

    Raises:
        OptionsError: it holds a password, which would get into the lock.
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
