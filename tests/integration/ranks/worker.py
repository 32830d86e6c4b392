"""One rank of a test: loads the graft, runs the named case, prints its result as JSON.

Runs under the interpreter of the torch in use (Python 3.9 or newer), not under pytest's.
"""

import ctypes
import importlib.util
import json
import os
import sys

if os.environ.get("SWITCHML_TEST_GRAFT"):
    ctypes.CDLL(os.environ["SWITCHML_TEST_GRAFT"], ctypes.RTLD_GLOBAL)

import cases
import torch


def load_report_module():
    spec = importlib.util.spec_from_file_location("switchml", os.environ["SWITCHML_TEST_REPORT"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    torch.set_num_threads(1)
    configs = os.environ.get("SWITCHML_TEST_CONFIGS")
    if configs:
        os.environ["SWITCHML_CONFIG"] = os.path.join(configs, os.environ["RANK"], "switchml.cfg")
    arguments = json.loads(os.environ.get("SWITCHML_TEST_ARGUMENTS", "{}"))
    result = getattr(cases, sys.argv[1])(load_report_module(), **arguments)
    sys.stdout.write("RESULT " + json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
