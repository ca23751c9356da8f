"""Threads that author's code has left: at the end of a command they get a while, and what still goes on then is named."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, thread

PATIENCE = 5.0
"""Seconds that they get in all."""
_NAMED = 5


class LeftAlone(ThreadPoolExecutor):
    """For `asyncio.to_thread`: the end of the loop does not wait for a call that goes on after its step has timed out."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more; wait for nobody."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def wait_for_threads(tell: Callable[[str], None]) -> None:
    """Wait until the threads have ended that keep a Python process alive, at most so long; name those that have not."""
    left = _left()
    if not left:
        return
    # What waits in a pool for more work ends when Python does; this is that moment, and it may take as long as a call there.
    threading.Thread(target=thread._python_exit, daemon=True).start()
    until = time.monotonic() + PATIENCE
    for one in left:
        one.join(max(0.0, until - time.monotonic()))
    left = _left()
    if left:
        names = ", ".join(one.name for one in left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
        tell(f"warning: what a step has left in threads goes on, and is ended now: {names}")


def _left() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
