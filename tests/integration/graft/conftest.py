"""A torch of a few lines that grafts are installed into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import graft
from support.torch import torch


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> graft.Site:
    return graft.make_site(tmp_path_factory.mktemp("a venv é"))


@pytest.fixture
def site(shared: graft.Site) -> Iterator[graft.Site]:
    yield from shared.saved()
