"""Load a graft into the torch that it was built for, just before torch's own libraries.

In an interpreter this file is the package switchml_graft, which is imported by a .pth file or by
`switchml-patch run`. Until torch is imported, it costs one comparison for each import. Runs under
Python 3.6 and newer, and imports nothing of patchgen.
"""

import os
import sys

TYPE_CHECKING = False  # not from typing, whose import would slow each start of the interpreter
if TYPE_CHECKING:
    from typing import Any

MARK = b"switchml-graft: "
LIBRARIES = ("libtorch_cpu.so", "libtorch_python.so")
OWN = "graft.so"
FORMAT = 1
VARIABLE = "SWITCHML_GRAFT"

_HERE = os.path.dirname(os.path.abspath(__file__))
_ENDS = 65536  # bytes
_REPORT = "torch.distributed.switchml"
_TORCHCOMMS = "TORCH_DISTRIBUTED_USE_TORCHCOMMS"

loaded = None  # type: Any  # path of the graft in this process
problem = ""  # reason why the graft was not loaded


class Misfit(Exception):  # noqa: N818  # no fault of the program
    """Reason why a graft cannot be loaded into this torch."""


def fingerprint(path: str) -> str:
    """Return the size of a library, and a checksum of its first and last 64 KiB.

    These parts of an ELF file have its build id, its program headers and its section table.
    """
    from binascii import crc32

    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        check = crc32(file.read(_ENDS))
        file.seek(max(0, size - _ENDS))
        return f"{size}-{crc32(file.read(_ENDS), check) & 0xFFFFFFFF:08x}"


def fingerprints(root: str) -> "dict[str, str]":
    """Return the fingerprints of a torch's libraries, by name."""
    found = {}
    for name in LIBRARIES:
        path = os.path.join(root, "lib", name)
        if os.path.exists(path):
            found[name] = fingerprint(path)
    return found


def torch_of(root: str) -> "dict[str, Any]":
    """Return version and commit of the torch in `root`, without importing it."""
    with open(os.path.join(root, "version.py"), "rb") as file:
        return version_of(file.read())


def version_of(content: bytes) -> "dict[str, Any]":
    """Return version and commit from the content of torch/version.py."""
    import re

    pattern = r"(?m)^(\w+)(?:[ ]*:[^=\n]*)?[ ]*=[ ]*['\"](.*?)['\"][ ]*$"
    pairs = dict(re.findall(pattern, content.decode("utf-8", "replace")))
    return {"version": pairs.get("__version__"), "commit": pairs.get("git_version")}


def read(path: str) -> "dict[str, Any]":
    """Read the identity of a graft without loading it.

    Raises:
        Misfit: the file is missing, truncated, or not a graft.
    """
    import json

    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise Misfit(f"cannot be read: {error.strerror}") from error
    begin = content.find(MARK)
    if begin < 0 or not _whole(content):
        raise Misfit("is no graft, or is cut short")
    text = content[begin + len(MARK) : content.find(b"\0", begin)]
    try:
        identity = json.loads(text.decode("ascii"))  # type: dict[str, Any]
    except (RecursionError, ValueError) as error:
        raise Misfit("does not say what it is for") from error
    if identity.get("format") != FORMAT:
        raise Misfit("was made by another version of switchml-patch")
    return identity


def _whole(content: bytes) -> bool:
    """Return whether an ELF file has all its sections. ld.so would crash on a truncated file."""
    from struct import unpack_from

    if content[:5] != b"\x7fELF\x02":
        return False
    order = "<" if content[5] == 1 else ">"
    (offset,) = unpack_from(order + "Q", content, 40)
    size, count = unpack_from(order + "2H", content, 58)
    return bool(offset + size * count <= len(content))


def misfit(identity: "dict[str, Any]", root: str) -> str:
    """Return why a graft is not for the torch in `root`; empty if it is."""
    wanted = identity["torch"]
    try:
        found = torch_of(root)
        same = all(found[key] == wanted[key] for key in found)
        others = identity["libraries"]
        here = fingerprints(root) if same else {}
    except OSError as error:
        return f"the torch in {root} cannot be read: {error.strerror}"
    if not same:
        return f"it is for {_named(wanted)}, this is {_named(found)} in {root}"
    differing = [name for name in others if others[name] != here.get(name)]
    if differing:
        text = "it is for another build of {}: {} in {} differs"
        return text.format(_named(wanted), " and ".join(differing), os.path.join(root, "lib"))
    return ""


def _named(torch: "dict[str, Any]") -> str:
    abi = torch.get("cxx11_abi")
    suffix = "" if abi is None else f", C++11 ABI {abi:d}"
    return "torch {} (commit {}{})".format(torch["version"], str(torch["commit"])[:12], suffix)


def load(path: str, root: str) -> None:
    """Load a graft into a process that is about to load torch, and bind all its symbols.

    Raises:
        Misfit: the graft is not for this torch, or the dynamic linker refused it.
    """
    why = misfit(read(path), root)
    if why:
        raise Misfit(why)
    import ctypes

    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise Misfit(f"cannot be loaded: {error}") from error


class Hook:
    """Meta path finder that loads the graft when torch is imported, and finds the report module."""

    own = None  # type: Any  # graft to load if the variable names none
    _done = False

    def find_spec(self, name: str, path: "Any" = None, _target: "Any" = None) -> "Any":
        """Load the graft when torch's extension module is looked up. Returns None for that module.

        A lookup of torch itself does nothing, because programs use it to ask whether torch is
        installed.
        """
        if name == "torch._C" and path and not self._done:
            self._done = True
            self._graft(next(iter(path)))
        elif name == _REPORT:
            return _report_module(name, path)
        return None

    def named_graft(self) -> "Any":
        """Return the path of the graft to load, or None."""
        # Ignored under -E and -I, as Python's own variables.
        named = "" if sys.flags.ignore_environment else os.environ.get(VARIABLE, "")
        if named == "0":
            return None
        return os.path.abspath(named) if named else self.own

    def _graft(self, root: str) -> None:
        """Load the graft, or warn why it cannot be loaded."""
        global loaded, problem  # noqa: PLW0603
        from importlib.util import find_spec

        path = self.named_graft()
        if path is None:
            return
        try:
            load(path, root)
            loaded = path
            if os.environ.get(_TORCHCOMMS) == "1" and find_spec("torchcomms") is not None:
                _warn(f"{_TORCHCOMMS}=1: torchcomms takes Gloo's place, without SwitchML; unset it")
        except Exception as error:  # noqa: BLE001  # a damaged graft is reported, and never fatal
            problem = f"the graft {path}: {error}"
        if problem and os.environ.get("SWITCHML_REQUIRE", "0") not in {"", "0"}:
            raise ImportError("SWITCHML_REQUIRE is set, but " + problem)
        if problem:
            _warn(problem + "; this process uses torch without SwitchML")


def _warn(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"switchml: warning: {text}\n")


def _report_module(name: str, path: "Any") -> "Any":
    """Return the spec of a patched torch's report module, else of the file beside this one."""
    from importlib.machinery import PathFinder
    from importlib.util import spec_from_file_location

    found = PathFinder.find_spec(name, path)
    return found or spec_from_file_location(name, os.path.join(_HERE, "report.py"))


def activate(*, own: bool = False) -> None:
    """Install the hook, once. With `own`, it loads the graft beside this file by default."""
    hooks = [finder for finder in sys.meta_path if isinstance(finder, Hook)]
    if not hooks:
        hooks = [Hook()]
        sys.meta_path.insert(0, hooks[0])
    if own:
        hooks[0].own = os.path.join(_HERE, OWN)
