"""The Flow: what a body asks its run for. Each call fixes what it asks at once and returns a coroutine.

Not here: carrying it out. A pass (running/) hands a Flow its `Operations`.
"""

import logging
from collections.abc import Mapping
from datetime import datetime
from random import Random
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

from flowstone.authoring.asking import Coro
from flowstone.authoring.requests import StateRequest
from flowstone.authoring.sites import site_of_caller
from flowstone.authoring.step_verbs import StepVerbs
from flowstone.authoring.wait_verbs import WaitVerbs
from flowstone.clock import to_datetime


class Flow(StepVerbs, WaitVerbs):
    """What a body gets as its first argument. Every awaited call is recorded once and never done again after that.

    Names, positions and keys are fixed at the call, so `gather(flow.do("a", f), flow.do("b", g))` is as good as two awaits.
    """

    __slots__ = ()

    def cancel(self, reason: str) -> NoReturn:
        """End the run as cancelled."""
        self._operations.cancel_body(reason)

    def set_state(self, name: str, value: Any) -> Coro[None]:
        """Set a named value of the run's state, durably; `flow state` and `flow.state` show it."""
        return self._operations.ask(StateRequest(name=name, value=value, site=site_of_caller()))

    @property
    def state(self) -> Mapping[str, Any]:
        """The run's state as far as this body has come; read only."""
        return MappingProxyType(dict(self._operations.state))

    def now(self) -> datetime:
        """The instant of the last completion that the body was given (at first, of the run's creation), in UTC."""
        self._operations.require_body("flow.now")
        return to_datetime(self._operations.now)

    def patched(self, patch: str) -> bool:
        """Whether this run goes the new way: true for runs that get here fresh, false for those recorded before the call existed.

        So that code may change under runs that are going on: `if flow.patched("two reviewers"): … else: the old way`. Which way a
        run went is recorded, once.
        """
        return self._operations.patched(patch)

    @property
    def random(self) -> Random:
        """Random numbers from the run's recorded seed: the same ones at every replay."""
        self._operations.require_body("flow.random")
        return self._operations.random

    def uuid(self, name: str) -> UUID:
        """A UUID that is the same at every replay, one per name and branch."""
        self._operations.require_body("flow.uuid")
        return self._operations.uuid(name)

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that is silent while recorded history is replayed."""
        self._operations.require_body("flow.log")
        return self._operations.log

    @property
    def run_id(self) -> str:
        """The run's id."""
        self._operations.require_body("flow.run_id")
        return self._operations.run_id

    @property
    def user(self) -> str:
        """The user who started the run."""
        self._operations.require_body("flow.user")
        return self._operations.user

    @property
    def input(self) -> Any:
        """The run's input as plain JSON data."""
        self._operations.require_body("flow.input")
        return self._operations.input
