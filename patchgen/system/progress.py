"""Progress of a command, as it is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def log_count(logger: logging.Logger, done: float, total: float) -> None:
    """Log how much of the present step is done, in any unit."""
    logger.info("%g of %g", done, total, extra={"done": done, "total": total})
