"""Runs pip with its user's settings, except those that redirect or stop an installation.

switchml-patch installs into the interpreter that runs this. Index and constraints stay the user's.
"""

import ast
import os
import subprocess
import sys

_DROPPED = (
    "abi", "config-file", "config-setting", "config-settings", "dry-run", "editable",
    "global-option", "group", "ignore-installed", "implementation", "no-build-isolation",
    "no-deps", "no-dependencies", "no-use-pep517", "no-user", "only-dependencies", "only-deps",
    "platform", "prefix", "python", "python-version", "quiet", "report", "require-virtualenv",
    "requirement", "requirements-from-script", "root", "target", "use-pep517", "user", "verbose",
)  # fmt: skip


def main() -> None:
    """Become pip, with its settings as variables instead of files."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=False, stdout=subprocess.PIPE,
        # pip 25.1 takes `user = 1` in a file for `pip config list --user`.
        env=dict(os.environ, PIP_PYTHON=sys.executable, PIP_USER="0", PIP_QUIET="0",
                 PIP_VERBOSE="0"),
    )  # fmt: skip
    if listed.returncode:
        sys.stderr.write(listed.stdout.decode(errors="replace"))  # where older pips say why
        sys.exit(listed.returncode)
    lines = [line.partition("=")[::2] for line in listed.stdout.decode().splitlines()]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    for scope in ("global.", "install.", ":env:."):  # later scopes win
        for key, value in lines:
            name = key[len(scope) :]
            if key.startswith(scope) and name not in _DROPPED:
                environ["PIP_" + name.upper().replace("-", "_")] = ast.literal_eval(value)
    environ["PIP_CONFIG_FILE"] = os.devnull
    pip = [sys.executable, "-m", "pip", *sys.argv[1:]]
    os.execve(sys.executable, pip, environ)  # noqa: S606  # without a shell


if __name__ == "__main__":
    main()
