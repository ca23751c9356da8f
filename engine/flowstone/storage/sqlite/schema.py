"""The tables, and the ordered migrations that make them. A file's `user_version` says how many migrations it has had.

sqlite-utils is used here only, on our own connection, and loaded only when there is something to do.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flowstone.storage.sqlite import statements
from flowstone.storage.sqlite.paths import beside, make_private_file, sync_folder
from flowstone.storage.sqlite.transaction import transaction

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x464C4F57
"""The letters FLOW: marks the file as ours."""

_ENDINGS = "('step.succeeded', 'step.failed', 'step.interrupted', 'step.cancelled', 'gate.answered', 'gate.closed')"
"""Kinds of which a step's attempt, or a gate's round, has at most one each."""

_FIRST = (
    "create table meta (name text primary key, value text not null) strict",
    "insert into meta (name, value) values ('db_uuid', lower(hex(randomblob(16))))",
    """
    create table runs (
      seq integer primary key,
      id text not null unique,
      workflow text not null,
      status text not null,
      version text not null,
      key text,
      user text not null,
      parent_run text,
      parent_step text,
      created_at integer not null,
      updated_at integer not null,
      finished_at integer,
      owner text,
      epoch integer not null,
      mail integer not null,
      events integer not null,
      waiting text not null default '[]',
      steps integer not null default 0,
      done integer not null default 0,
      current_step text,
      error text
    ) strict""",
    "create unique index run_by_key on runs (key) where key is not null",
    # The rowid stands at the end of every index: runs made at one instant are listed newest first too.
    "create index run_by_age on runs (created_at)",
    "create index run_by_workflow on runs (workflow, created_at)",
    "create index run_by_status on runs (status, created_at)",
    "create index run_unfinished on runs (created_at) where finished_at is null",
    "create index run_by_parent on runs (parent_run) where parent_run is not null",
    """
    create table journal (
      id integer primary key autoincrement,
      run_id text not null,
      n integer not null,
      at integer not null,
      kind text not null,
      step text,
      attempt integer,
      crc integer not null,
      body text not null,
      unique (run_id, n)
    ) strict""",
    f"create unique index journal_once on journal (run_id, step, attempt, kind) where kind in {_ENDINGS}",
    """
    create table log (
      id integer primary key autoincrement,
      run_id text not null,
      step text,
      attempt integer,
      at integer not null,
      stream text not null,
      text text not null
    ) strict""",
    "create index log_by_run on log (run_id, step)",
    """
    create table audit (
      id integer primary key autoincrement,
      run_id text not null,
      n integer not null,
      at integer not null,
      action text not null,
      by text not null
    ) strict""",
    "create index audit_by_run on audit (run_id)",
    """
    create table versions (
      version text primary key,
      workflow text not null,
      text text not null,
      at integer not null
    ) strict""",
)


def _first(database: "Database") -> None:
    for statement in _FIRST:
        database.execute(statement)


Migration = Callable[["Database"], None]

MIGRATIONS: tuple[Migration, ...] = (_first,)
"""Never change one that was released: add the next."""


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply the migrations that the file has not had, in one transaction. The caller holds the write lock."""
    from sqlite_utils import Database  # not at the top: its import costs more than most commands

    database = Database(connection, execute_plugins=False, recursive_triggers=False)
    with transaction(connection):
        had = connection.execute(statements.USER_VERSION).fetchall()[0][0]
        for migration in migrations[had:]:
            migration(database)
        connection.execute(f"pragma application_id = {APPLICATION_ID:d}").fetchall()
        connection.execute(f"pragma user_version = {len(migrations):d}").fetchall()


def back_up(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy the database to `<database>.bak-vN`, N being the version it has. The caller holds the write lock."""
    version = connection.execute(statements.USER_VERSION).fetchall()[0][0]
    copy, unfinished = beside(path, f".bak-v{version}"), beside(path, f".bak-v{version}-unfinished")
    unfinished.unlink(missing_ok=True)
    make_private_file(unfinished)
    connection.execute(statements.COPY_INTO, (str(unfinished),)).fetchall()
    unfinished.replace(copy)
    sync_folder(path.parent)  # the copy must not be lost with the power when the migration is not
    return copy
