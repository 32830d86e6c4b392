"""Progress of a command, as it is logged: steps that begin, and how far the present one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def log_count(logger: logging.Logger, done: float, total: float) -> None:
    """Logs how far the present step is.

    Args:
        logger: of the module whose step it is.
        done: in any unit.
        total: in the same unit.
    """
    logger.info("%g of %g", done, total, extra={"done": done, "total": total})
