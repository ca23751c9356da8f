"""Gates: a suspend, which a person's `flow resume` passes, and an approval, which a person answers, in rounds.

What closes a gate is decided here, from the journal and the instant; writing it is the pass's.
"""

from typing import Any

from flowstone.authoring.answers import Answer
from flowstone.authoring.requests import ApprovalRequest, SuspendRequest
from flowstone.clock import to_datetime
from flowstone.errors import BadData, NotAllowed
from flowstone.journal.events import Draft, Event, Kind, body_text
from flowstone.journal.operations import Operation
from flowstone.running.answering import filled, refuse_by_policy
from flowstone.running.steps.asked import Asked
from flowstone.values.codec import UNANNOTATED, fits, restore, schema_of


class AskedSuspend(Asked[SuspendRequest]):
    """A stop that only the verb `flow resume` passes."""

    __slots__ = ()

    kind = "suspend"
    prefix = "suspend:"

    def opening(self, now: int) -> Draft:
        """The gate opens."""
        return Draft(
            Kind.GATE_OPENED,
            self.key,
            1,
            body_text(**self.place(), schema=None, approvers="any", scope=None, deadline=None, message="", round=1),
        )

    def outcome(self, completion: Event) -> None:
        """Nothing: the run goes on."""

    def passed(self, by: dict[str, Any] | None, at: int) -> Draft:
        """Its completion, when `flow resume` passes it."""
        return closing(self.key, 1, "resumed", by=by, at=at)


class AskedApproval(Asked[ApprovalRequest]):
    """A question to a person."""

    __slots__ = ("_schema",)

    kind = "approval"
    prefix = "approve:"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._schema = schema_of(self.annotation)  # at the call: a type that has none is the body's failure

    @property
    def annotation(self) -> Any:
        """The type of the data that comes with a yes."""
        return UNANNOTATED if self.request.schema is None else self.request.schema

    def opening(self, now: int) -> Draft:
        """The first round."""
        deadline = None if self.request.expiry is None else now + self.request.expiry
        return self._round(1, deadline)

    def _round(self, number: int, deadline: int | None) -> Draft:
        return Draft(
            Kind.GATE_OPENED,
            self.key,
            number,
            body_text(
                **self.place(),
                **({"again": True} if number > 1 else {}),
                schema=self._schema,
                approvers=self.request.approvers,
                scope=self.request.scope,
                deadline=deadline,
                message=self.request.message,
                round=number,
            ),
        )

    def read(self, record: Operation, now: int, initiator: str) -> list[Draft]:
        """What follows from the gate's mail and the instant: nothing yet, its closing, or a refusal and a new round.

        An answer that was taken before the deadline counts even if it is read after it.
        """
        answer, number = record.answer, record.last.number
        deadline: int | None = record.opened["deadline"]
        if answer is not None and answer.attempt == number:
            return self._judged(answer, number, record.opened, initiator)
        if deadline is not None and now >= deadline:
            return [closing(self.key, number, "expired", at=deadline)]
        return []

    def _judged(self, answer: Event, number: int, opened: dict[str, Any], initiator: str) -> list[Draft]:
        body = answer.body()
        try:
            if "scopes" in body:  # it was given before the gate opened, when nobody knew the gate's policy and schema
                user = body["by"]["user"]
                refuse_by_policy(opened, self.name, body["by"], initiator, dict.fromkeys(body["scopes"], (user,)))
                if body["decision"] == "approved":
                    body["data"] = filled(body["data"], opened["schema"])
            if body["decision"] == "approved":
                fits(body["data"], self.annotation, where=f'the gate "{self.name}"')
        except (BadData, NotAllowed) as refusal:
            error = {"message": refusal.message, "details": list(refusal.details)}
            return [
                Draft(Kind.GATE_REFUSED, self.key, number, body_text(error=error)),
                self._round(number + 1, opened["deadline"]),
            ]
        return [
            closing(
                self.key,
                number,
                body["decision"],
                data=body["data"],
                by=body["by"],
                comment=body["comment"],
                at=answer.at,
            )
        ]

    def outcome(self, completion: Event) -> Answer[Any]:
        """The answer."""
        body = completion.body()
        approved = body["outcome"] == "approved"
        by = body["by"] or {}
        return Answer(
            reason=self.name,
            status=body["outcome"],
            by=by.get("user"),
            at=None if body["at"] is None else to_datetime(body["at"]),
            comment=body["comment"],
            value=self._data(body["data"]) if approved else None,
        )

    def _data(self, data: Any) -> Any:
        if self.request.schema is None:
            return {} if data is None else data
        return restore(data, self.annotation)


def closing(
    key: str,
    number: int,
    outcome: str,
    *,
    at: int,
    data: Any = None,
    by: dict[str, Any] | None = None,
    comment: str | None = None,
) -> Draft:
    """The completion of a gate, with what the person said."""
    return Draft(Kind.GATE_CLOSED, key, number, body_text(outcome=outcome, data=data, by=by, comment=comment, at=at))
