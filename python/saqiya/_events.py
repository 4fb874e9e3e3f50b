"""What stores tell an operator, in the log: logging.getLogger("saqiya")."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("saqiya")

# By their numbers in the C API.
_KINDS = {1: "outage", 2: "recovered", 3: "refused"}
_LEVELS = {1: logging.WARNING, 2: logging.INFO, 3: logging.WARNING}


def log(
    kind: int,
    reason: str,
    server: str,
    message: str,
    suppressed: int,
    at: float,
    duration_us: int,
    decisions: int,
) -> None:
    """One line; the same as values in the record's attribute `saqiya`, for other formats."""
    values = {
        "event": _KINDS.get(kind, "unknown"),
        "reason": reason,
        "server": server,
        "suppressed": suppressed,
        "at": at,  # seconds since 1970
        "duration": duration_us / 1e6,
        "decisions": decisions,
    }
    more = f" ({suppressed} earlier messages were left out)" if suppressed > 0 else ""
    LOGGER.log(_LEVELS.get(kind, logging.WARNING), "%s%s", message, more, extra={"saqiya": values})
