"""switchml.cfg as far as the doctor needs it; what is wrong with it says the delegate."""

import os
import re
import shlex
import socket

_SECTION = re.compile(r"\[\s*(.*?)[\s.]*\]$")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def read_values(environ: "dict[str, str]") -> "dict[str, str]":
    """Values of the file that the delegate takes, by section and key; empty where there is none."""
    return _parse(read_text(environ), environ)


def read_text(environ: "dict[str, str]") -> str:
    """Text of the file that the delegate takes; empty where there is none."""
    files = filter(os.path.isfile, _places(environ))
    path = next((path for path in files if os.access(path, os.R_OK)), os.devnull)
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def without_numbers(text: str) -> str:
    """The text without the rank and the number of workers, which are filled in then."""
    numbers = re.compile(r"\s*(general\.)?(rank|num_workers)\s*=")
    return "".join(line for line in text.splitlines(keepends=True) if not numbers.match(line))


def eal_options(values: "dict[str, str]") -> "list[str]":
    """Options of DPDK."""
    try:
        return shlex.split(values.get("backend.dpdk.extra_eal_options", ""))
    except ValueError:
        return []


def values_of(options: "list[str]", *names: str) -> "list[str]":
    """Values of options, which are given as "--name=value" or "--name value"."""
    pairs = zip(options, [*options[1:], ""])
    found = [(*word.split("=", 1), follows)[:2] for word, follows in pairs]
    return [value for name, value in found if name in names]


def read_number(values: "dict[str, str]", key: str, default: int) -> int:
    """Reads a whole number; 0 where it is none, which the delegate refuses."""
    value = values.get(key, str(default))
    return int(value) if value.isdecimal() else 0


def find_proxy(values: "dict[str, str]", environ: "dict[str, str]") -> str:
    """Variable whose proxy gRPC asks for the controller; empty where it asks the controller."""
    host = values.get("general.controller_ip", "127.0.0.1")
    direct = environ.get("no_grpc_proxy", environ.get("no_proxy", "")).replace(" ", "").split(",")
    asked = next(filter(environ.get, ("grpc_proxy", "https_proxy", "http_proxy")), "")
    return "" if host.endswith(tuple(filter(None, direct))) else asked


def _places(environ: "dict[str, str]") -> "list[str]":
    named = environ.get("SWITCHML_CONFIG")
    beside = f"switchml-{socket.gethostname()}.cfg"
    return [named] if named else ["/etc/switchml.cfg", "switchml.cfg", os.path.join(".", beside)]


def _parse(text: str, environ: "dict[str, str]") -> "dict[str, str]":
    values, section = {}, ""
    for line in text.splitlines():
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
