"""The fixtures are in a module of their own, because the benchmarks use them as well."""

from support.serving import summing
from support.switch_program import switch_cache
from support.torch import (
    graft,
    home,
    launch,
    patch_launch,
    patched,
    plugin,
    plugin_launch,
    servers,
    torch,
    torch_launcher,
    torch_python,
)
