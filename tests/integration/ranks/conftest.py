"""The fixtures are in a module of their own, because the benchmarks use them as well."""

from fixtures import (  # noqa: F401
    graft,
    home,
    launch,
    patched,
    source,
    torch_launcher,
    torch_python,
)
