"""Whether and when a step is attempted again: decided from its policy, its failures so far, and the instant."""

from datetime import timedelta
from pathlib import Path

from flowstone.authoring.definition import Policy
from flowstone.journal.events import Draft, Kind, body_text
from flowstone.values.duration import parse
from flowstone.values.failures import describe, retryable

FIRST_DELAY = 100_000
LONGEST_DELAY = 30_000_000
"""Exponential: 100 ms doubling to 30 s, in microseconds."""


def delay_after(failures: int, retry_delay: str | timedelta | None) -> int:
    """Microseconds between the `failures`th failure (from 1) and the next attempt."""
    if retry_delay is None or retry_delay == "exponential":
        return min(FIRST_DELAY << min(failures - 1, 16), LONGEST_DELAY)
    return parse(retry_delay)


def without_our_frames(error: BaseException) -> BaseException:
    """The error with a traceback that begins where the author's code does."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return error.with_traceback(trace)


_OURS = str(Path(__file__).parent.parent)


def failure_draft(key: str, attempt: int, error: BaseException, policy: Policy, failures: int, now: int) -> Draft:
    """The end of an attempt that raised: final, or with the instant of the next one. `failures` counts those before it."""
    retries = policy.retries or 0
    final = failures >= retries or not retryable(error, policy.no_retry)
    next_attempt_at = None if final else now + delay_after(failures + 1, policy.retry_delay)
    return Draft(
        Kind.STEP_FAILED,
        key,
        attempt,
        body_text(error=describe(without_our_frames(error)), final=final, next_attempt_at=next_attempt_at),
    )
