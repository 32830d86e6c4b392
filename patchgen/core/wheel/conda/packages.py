"""Fetches archives of packages into a store, after verifying their hashes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from patchgen.core.wheel.conda.lockfile import Package
from patchgen.errors import FileError, PatchgenError, ToolError, TreeError, file_errors
from patchgen.system import outputs

if TYPE_CHECKING:
    from rattler import Client

STORE = "archives"
"""Directory of the store in the cache."""
_LOGGER = logging.getLogger(__name__)
_AT_ONCE = 8
_RETRIES = 3
_BLOCK = 1 << 20  # bytes


def fetch(packages: Sequence[Package], store: str) -> dict[Package, str]:
    """Fetch archives into the store, and return their paths. Logs each.

    URLs may be http, https and file. Archives in the store are verified again and reused.

    Raises:
        TreeError: an archive does not have the hashes of the lock; it is not kept.
        ToolError: an archive cannot be fetched.
        FileError: the store cannot be written.
    """
    return asyncio.run(_fetch_all(packages, store))


async def _fetch_all(packages: Sequence[Package], store: str) -> dict[Package, str]:
    import rattler  # slow to import

    client = rattler.Client.default_client(_RETRIES)
    gate = asyncio.Semaphore(_AT_ONCE)
    done = 0

    async def one(package: Package) -> str:
        nonlocal done
        async with gate:
            path, how = await _fetch(package, store, client)
        done += 1
        _LOGGER.info("%s %d of %d: %s", how, done, len(packages), package.file_name)
        return path

    results = await asyncio.gather(*map(one, packages), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, PatchgenError):
            raise failure
    for family in (TreeError, FileError, ToolError):  # the most serious first
        lines = [str(failure) for failure in failures if isinstance(failure, family)]
        if lines:
            raise family("\n".join(dict.fromkeys(lines)))
    return dict(zip(packages, map(str, results)))


async def _fetch(package: Package, store: str, client: Client) -> tuple[str, str]:
    directory = os.path.join(store, package.sha256)
    path = os.path.join(directory, package.file_name)
    if await asyncio.to_thread(_problem, package, path) is None:
        return path, "had"
    with file_errors():
        outputs.make_cache(store)
        os.makedirs(directory, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=directory, suffix=".part")
        os.close(descriptor)
    try:
        await _copy(package.url, temporary, client)
        problem = await asyncio.to_thread(_problem, package, temporary)
        if problem is not None:
            raise TreeError(f"{package.url}: {problem}; not installed")
        with file_errors():
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return path, "fetched"


async def _copy(url: str, path: str, client: Client) -> None:
    from rattler.package_streaming import download_to_path

    try:
        if url.startswith("file:"):
            await asyncio.to_thread(shutil.copyfile, url2pathname(urlsplit(url).path), path)
        else:
            await download_to_path(client, url, Path(path))
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"{url}: cannot be fetched: {reason}") from error


def _problem(package: Package, path: str) -> str | None:
    """Return what is wrong with an archive, or None."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                sha256.update(block)
                md5.update(block)
    except FileNotFoundError:
        return "not there"
    wanted = {"sha256": package.sha256, "md5": package.md5}
    for kind, found in (("sha256", sha256.hexdigest()), ("md5", md5.hexdigest())):
        if wanted[kind] != found:
            return f"its {kind} is {found}, and not {wanted[kind]} as the lock says"
    return None
