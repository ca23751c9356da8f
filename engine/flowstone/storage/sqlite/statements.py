"""All SQL of the store except its tables (schema.py). Values are always bound; what is put together here are constants."""
# ruff: noqa: S608 - no text from outside is put into a statement here

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowstone.ports import Filter

# the connection

SETTINGS = (
    "pragma foreign_keys = on",
    "pragma trusted_schema = off",
    "pragma cell_size_check = on",
    "pragma journal_size_limit = 16777216",
    "pragma fullfsync = on",  # macOS only: there an ordinary fsync does not reach the disk
    "pragma checkpoint_fullfsync = on",
)
QUERY_ONLY = "pragma query_only = on"
SYNC_RESULT = "pragma synchronous = full"
SYNC_MARK = "pragma synchronous = normal"
JOURNAL_MODE = "pragma journal_mode"
USE_WAL = "pragma journal_mode = wal"
DATA_VERSION = "pragma data_version"
APPLICATION_ID = "pragma application_id"
USER_VERSION = "pragma user_version"
DB_UUID = "select value from meta where name = 'db_uuid'"
NEWEST_EVENT = "select max(id) from journal"
EVENT_MARK = "select run_id, n, crc from journal where id = ?"
# What would make a plain statement of ours do something else: a trigger on a table, a view or a virtual table in place of one.
STRANGE = """
select type || ' ' || quote(name) from sqlite_master
where tbl_name in ('meta', 'runs', 'journal', 'log', 'audit', 'versions')
  and (type in ('trigger', 'view') or (type = 'table' and rootpage = 0))"""
BEGIN = "begin immediate"
COMMIT = "commit"
ROLLBACK = "rollback"
COPY_INTO = "vacuum into ?"
QUICK_CHECK = "pragma quick_check"
VACUUM = "vacuum"
CHECKPOINT = "pragma wal_checkpoint(truncate)"

# runs

_RUN = (
    "id, workflow, status, version, key, user, parent_run, parent_step, created_at, updated_at, finished_at, "
    "owner, epoch, mail, events, waiting, steps, done, current_step, error"
)

CREATE_RUN = f"""
insert into runs (id, workflow, status, version, key, user, parent_run, parent_step, created_at, updated_at,
  owner, epoch, mail, events, waiting, steps, done, current_step)
values (:id, :workflow, :status, :version, :key, :user, :parent_run, :parent_step, :now, :now,
  :owner, :epoch, :mail, :events, :waiting, :steps, :done, :current_step)
returning {_RUN}"""

_FOLDED = """
  waiting = case when :folded then :waiting else waiting end,
  steps = case when :folded then :steps else steps end,
  done = case when :folded then :done else done end,
  current_step = case when :folded then :current_step else current_step end,
  error = case when :folded then :error else error end"""

CLAIM_RUN = f"""
update runs set owner = :owner, epoch = epoch + 1, status = :status, version = coalesce(:version, version),
  finished_at = case when :moves then :finished_at else finished_at end,
  mail = mail + :mail, events = events + :events, updated_at = :now,{_FOLDED}
where id = :id and epoch = :epoch and status = :seen_status and owner is :seen_owner
returning {_RUN}"""


@cache
def append(*, moves: bool, release: bool, folded: bool, seen_mail: bool) -> str:
    """The statement that counts the owner's events, with only what this append does besides.

    To name an indexed column is to write its index, and an append is what a run does most.
    """
    sets = ["events = events + :events", "mail = mail + :mail", "updated_at = :now"]
    terms = ["id = :id", "epoch = :epoch", "owner is not null"]
    if moves:
        sets += ["status = :status", "finished_at = :finished_at"]
        terms += ["status in (select value from json_each(:from))"]
    if release:
        sets += ["owner = null"]
    if folded:
        sets += [f"{column} = :{column}" for column in ("waiting", "steps", "done", "current_step", "error")]
    if seen_mail:
        terms += ["mail = :seen_mail"]
    return f"update runs set {', '.join(sets)} where {' and '.join(terms)} returning events"


COUNT_POSTED = f"""
update runs set events = events + :events, mail = mail + :mail, updated_at = :now
where id = :id
returning {_RUN}"""

RUN = f"select {_RUN} from runs where id = :id"
RUN_OF_KEY = f"select {_RUN} from runs where key = :key"
IDS_WITH_PREFIX = "select id from runs where id >= :prefix and id < :prefix || '~' order by seq desc limit :limit"
RUNS_WITH_PREFIX = f"""
select {_RUN} from runs where id >= :prefix and id < :prefix || char(1114111)
order by created_at desc, seq desc limit :limit"""
ALL_IDS = "select id from runs order by id"


def runs(wanted: "Filter") -> tuple[str, dict[str, Any]]:
    """The statement that lists the runs that fit, newest first, and what to bind beside `limit` and `offset`."""
    condition, values = _condition(wanted)
    return f"select {_RUN} from runs where {condition} order by created_at desc, seq desc limit :limit offset :offset", values


def count(wanted: "Filter") -> tuple[str, dict[str, Any]]:
    """The statement that counts the runs that fit, and what to bind."""
    condition, values = _condition(wanted)
    return f"select count(*) from runs where {condition}", values


def _condition(wanted: "Filter") -> tuple[str, dict[str, Any]]:
    # One term per wish, not "(:x is null or x = :x)", which no index can serve.
    terms = {
        "workflow = :workflow": wanted.workflow is not None,
        "status = :status": wanted.status is not None,
        "key = :key": wanted.key is not None,
        "finished_at is null": wanted.unfinished is True,
        "finished_at is not null": wanted.unfinished is False,
        "status = :ownable": wanted.ownable,
    }
    values = {"workflow": wanted.workflow, "status": wanted.status, "key": wanted.key}
    return " and ".join(term for term, applies in terms.items() if applies) or "true", values


DELETE_RUN = """
delete from runs where id = :id and epoch = :epoch and status = :status and owner is :owner and events = :events
returning id"""
DELETE_BESIDE = ("delete from journal where run_id = :id", "delete from log where run_id = :id")

REINDEX = f"""
update runs set status = :status, finished_at = :finished_at, mail = :mail, events = :events, waiting = :waiting,
  steps = :steps, done = :done, current_step = :current_step, error = :error
where id = :id
returning {_RUN}"""

SIZE = """
select (select coalesce(sum(length(cast(body as blob))), 0) from journal where run_id = :id)
  + (select coalesce(sum(length(cast(text as blob))), 0) from log where run_id = :id)"""

# the journal; a body is read as bytes, as its checksum was made

APPEND_EVENT = """
insert into journal (run_id, n, at, kind, step, attempt, crc, body)
values (?, ?, ?, ?, ?, ?, ?, ?)"""

EVENTS = """
select n, at, kind, step, attempt, crc, cast(body as blob) from journal
where run_id = :id and n > :after order by n"""

EVENTS_OF_STEP = """
select n, at, kind, step, attempt, crc, cast(body as blob) from journal
where run_id = :id and step = :step order by n"""

# what is written beside it

ADD_LOG = "insert into log (run_id, step, attempt, at, stream, text) values (?, ?, ?, ?, ?, ?)"
LOGS = """
select id, step, attempt, at, stream, text from log
where run_id = :id and id > :after order by id"""
LOGS_OF_STEP = """
select id, step, attempt, at, stream, text from log
where run_id = :id and step = :step and id > :after order by id"""

ADD_SOURCE = """
insert into versions (version, workflow, text, at) values (:version, :workflow, :text, :now)
on conflict (version) do nothing"""
SOURCE = "select version, workflow, text from versions where version = :version"

AUDIT = "select run_id, n, at, action, by from audit order by id desc limit :limit"
AUDIT_OF_RUN = "select run_id, n, at, action, by from audit where run_id = :id order by id desc limit :limit"
ADD_AUDIT = "insert into audit (run_id, n, at, action, by) values (:id, :n, :now, :action, :by)"
