"""The answer to an approval, as a body gets it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


class NotApproved(Exception):
    """`answer.data` was read although the answer is no yes."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What became of an approval: `status` is "approved", "rejected" or "expired"."""

    reason: str
    status: str
    by: str | None = None
    at: datetime | None = None
    comment: str | None = None
    value: T | None = None

    @property
    def approved(self) -> bool:
        """Whether the answer is yes."""
        return self.status == "approved"

    @property
    def data(self) -> T:
        """The fields that came with the yes, as the schema's type. Raises NotApproved for any other answer."""
        if not self.approved:
            raise NotApproved(f'"{self.reason}" was {self.status}, so it has no data: look at answer.approved first')
        return self.value  # type: ignore[return-value]  # a schema's data was checked before the gate closed
