"""The verbs of a Flow that wait: sleep, sleep_until, suspend, approval."""

from datetime import datetime
from typing import Any, Literal, TypeVar, overload

from flowstone.authoring.answers import Answer
from flowstone.authoring.asking import Asking, Coro, Duration
from flowstone.authoring.requests import ApprovalRequest, SleepRequest, SuspendRequest
from flowstone.authoring.sites import site_of_caller
from flowstone.clock import from_datetime
from flowstone.errors import BadData
from flowstone.values.duration import parse

T = TypeVar("T")
Approvers = Literal["any", "owner", "not-initiator"]


class WaitVerbs(Asking):
    """Waiting for an instant or for a person."""

    __slots__ = ()

    def sleep(self, name: str, duration: Duration) -> Coro[None]:
        """Wait; the instant of waking is recorded, so a crash does not start the wait anew.

        `duration` is text such as "500ms", "2s", "10m", "2d", or a timedelta.
        """
        return self._operations.ask(SleepRequest(name=name, site=site_of_caller(), duration=parse(duration)))

    def sleep_until(self, name: str, moment: datetime) -> Coro[None]:
        """Wait until an instant. Raises BadData for a naive datetime: nobody knows its instant."""
        if moment.tzinfo is None:
            raise BadData(
                f'flow.sleep_until("{name}"): {moment} has no time zone, so it is no instant',
                hint="give tzinfo=, as in datetime(2030, 1, 1, tzinfo=UTC)",
            )
        return self._operations.ask(SleepRequest(name=name, site=site_of_caller(), until=from_datetime(moment)))

    def suspend(self, reason: str) -> Coro[None]:
        """Stop here until a person types `flow resume RUN`."""
        return self._operations.ask(SuspendRequest(name=reason, site=site_of_caller()))

    @overload
    def approval(
        self,
        reason: str,
        *,
        schema: type[T],
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Coro[Answer[T]]: ...

    @overload
    def approval(
        self,
        reason: str,
        *,
        schema: None = None,
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Coro[Answer[dict[str, Any]]]: ...

    def approval(
        self,
        reason: str,
        *,
        schema: Any = None,
        expiry: Duration | None = None,
        approvers: Approvers = "any",
        scope: str | None = None,
        message: str = "",
    ) -> Coro[Answer[Any]]:
        """Ask a person: `flow approve RUN REASON` says yes, `flow reject` says no, and after `expiry` it is "expired".

        `schema` is the type of the data that comes with a yes. `approvers`: "any", "owner" (who started the run), or
        "not-initiator" (anybody else). `message` is shown to whoever is asked.
        """
        if approvers not in ("any", "owner", "not-initiator"):
            raise BadData(f'approvers="{approvers}": give "any", "owner" or "not-initiator"')
        return self._operations.ask(
            ApprovalRequest(
                name=reason,
                site=site_of_caller(),
                schema=schema,
                expiry=None if expiry is None else parse(expiry),
                approvers=approvers,
                scope=scope,
                message=message,
            )
        )
