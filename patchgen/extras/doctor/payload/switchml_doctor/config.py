"""The values of switchml.cfg that the doctor needs. The delegate reports errors in the file."""

import os
import re
import shlex
import socket

_SECTION = re.compile(r"\[\s*(.*?)[\s.]*\]$")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def read_values(environ: "dict[str, str]") -> "dict[str, str]":
    """Return the values of the file that the delegate takes, by section and key."""
    return _parse(read_text(environ), environ)


def read_text(environ: "dict[str, str]") -> str:
    """Return the text of the file that the delegate takes; empty if no file exists.

    Bytes that are not UTF-8 become surrogate escapes.
    """
    files = filter(os.path.isfile, _places(environ))
    path = next((path for path in files if os.access(path, os.R_OK)), os.devnull)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def without_numbers(text: str) -> str:
    """Return the text without rank and num_workers, so that the delegate fills them in."""
    numbers = re.compile(r"\s*(general\.)?(rank|num_workers)\s*=")
    return "".join(line for line in text.splitlines(keepends=True) if not numbers.match(line))


def eal_options(values: "dict[str, str]") -> "list[str]":
    """Return the options for DPDK's EAL."""
    try:
        return shlex.split(values.get("backend.dpdk.extra_eal_options", ""))
    except ValueError:
        return []


def values_of(options: "list[str]", *names: str) -> "list[str]":
    """Return the values of these options, which are given as "--name=value" or "--name value"."""
    pairs = zip(options, [*options[1:], ""])
    found = [(*word.split("=", 1), follows)[:2] for word, follows in pairs]
    return [value for name, value in found if name in names]


def read_number(values: "dict[str, str]", key: str, default: int) -> int:
    """Return a whole number; 0 if the value is not a number, which the delegate refuses."""
    value = values.get(key, str(default))
    return int(value) if value.isdecimal() else 0


def find_proxy(values: "dict[str, str]", environ: "dict[str, str]") -> str:
    """Return the proxy through which gRPC reaches the controller; empty if it needs none."""
    host = values.get("general.controller_ip", "127.0.0.1")
    direct = environ.get("no_grpc_proxy", environ.get("no_proxy", "")).replace(" ", "").split(",")
    proxy = next(filter(environ.get, ("grpc_proxy", "https_proxy", "http_proxy")), "")
    return "" if host.endswith(tuple(filter(None, direct))) else proxy


def _places(environ: "dict[str, str]") -> "list[str]":
    named = environ.get("SWITCHML_CONFIG")
    beside = f"switchml-{socket.gethostname()}.cfg"
    return [named] if named else ["/etc/switchml.cfg", "switchml.cfg", os.path.join(".", beside)]


def _parse(text: str, environ: "dict[str, str]") -> "dict[str, str]":
    values, section = {}, ""
    for line in text.lstrip("\ufeff").splitlines():
        content = line.partition("#")[0].strip()
        found = _SECTION.match(content)
        if found:
            section = found.group(1) + "." if found.group(1) else ""
            continue
        key, equals, value = content.partition("=")
        if equals:
            values[section + key.strip()] = _VARIABLE.sub(
                lambda name: environ.get(name.group(1), ""), value.strip()
            )
    return values
