"""Parts of builds of the small project."""

from __future__ import annotations

import pytest
from support import build
from support.build import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Parts of a build, and nothing built."""
    return build.make_site(tmp_path_factory)
