"""A client library of a few lines in a git repository, laid out as SwitchML's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchgen.core.source.remotes import Remotes
from patchgen.extras.client.checkout import CommitOrigin
from patchgen.extras.client.fixes import Fix, parse
from patchgen.system.git_objects import blob_id
from support.trees import git

LIBRARY = "dev_root/client_lib/src"
CONTEXT = f"{LIBRARY}/context.cc"
FILES = {
    f"{LIBRARY}/common.h": "#pragma once\n",
    f"{LIBRARY}/context.h": (
        '#pragma once\n#include <string>\n#include "common.h"\nnamespace switchml {\n'
        "struct Config { bool LoadFromFile(std::string path); };\n"
        "struct Context { static Context& GetInstance(); const char* About(); };\n}\n"
    ),
    CONTEXT: (
        '#include "context.h"\n#include "fifo.h"\n#include "ppp.h"\n#include "dummy_backend.h"\n'
        "namespace switchml {\n"
        "Context& Context::GetInstance() { static Context one; return one; }\n"
        "bool Config::LoadFromFile(std::string) { return true; }\n"
        'const char* Context::About() { return "faulty"; }\n}\n'
        "const char* version = VERSION_INFO;\n"
        "const char* compiled = __DATE__ __TIME__ __FILE__;\n"
    ),
    f"{LIBRARY}/config.cc": 'const char* option = "general.timeout_threshold";\n',
    f"{LIBRARY}/grpc_client.h": "#error gRPC\n",
    f"{LIBRARY}/grpc_client.cc": "#error gRPC\n",
    f"{LIBRARY}/schedulers/fifo.h": "#pragma once\n",
    f"{LIBRARY}/prepostprocessors/ppp.h": "#pragma once\n",
    f"{LIBRARY}/backends/dummy/dummy_backend.h": (
        "#pragma once\nnamespace switchml { struct DummyBackend { void Start(); }; }\n"
    ),
    f"{LIBRARY}/backends/dummy/dummy_backend.cc": (
        '#include "dummy_backend.h"\n#ifndef DUMMY\n#error DUMMY\n#endif\n'
        "void switchml::DummyBackend::Start() {}\n"
    ),
    f"{LIBRARY}/backends/dpdk/dpdk_backend.cc": "#error DPDK\n",
    f"{LIBRARY}/backends/dpdk/dpdk_backend.h": "#error DPDK\n",
    f"{LIBRARY}/README.md": "no source\n",
    "dev_root/protos/switchml.proto": 'syntax = "proto3";\n',
    "dev_root/p4/switchml.p4": "not needed\n",
}


@dataclass(frozen=True)
class Repository:
    root: Path
    commit: str

    def origin(self, cache: Path, *mirrors: str) -> CommitOrigin:
        """Return origin of the commit: these mirrors, and the repository as its own address."""
        return CommitOrigin(str(cache), Remotes(mirrors), f"file://{self.root}", self.commit)


def make(root: Path) -> Repository:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    return Repository(root, commit(root, "all of it"))


def commit(root: Path, message: str) -> str:
    """Commit all files, and return the id."""
    git(root, "add", ".")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").strip()


def fix(identity: str, replacement: str) -> Fix:
    """Return a fix that changes the library's own description."""
    text = FILES[CONTEXT]
    line = text[: text.index('"faulty"')].count("\n") + 1
    column = text.splitlines()[line - 1].index('"faulty"')
    return parse(
        identity,
        f"It says something else.\n\nfile {CONTEXT}\nblob {blob_id(text.encode())}\n"
        f"at {line}:{column} to {line}:{column + 8}\n> {replacement}\n",
    )


FIXES = (fix("honest", '"fixed"'),)
