"""The torch, the graft and the launcher of the tests."""

from support.torch import graft, home, launch, patched, servers, torch, torch_python
