"""Files that a person named for output: made new, or replaced; whole or not at all, never through a link."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shlex import quote

from flowstone.errors import CannotCreate, FlowError, StorageFailed

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def refuse_taken(path: Path) -> None:
    """Raise CannotCreate if something lies there, a broken link too."""
    if path.exists() or path.is_symlink():
        raise CannotCreate(f"{path} is there already: nothing was made", hint=f"ls -l {quote(str(path))}")


def make(path: Path, text: str) -> None:
    """Make a new file and the folders above it; one that is there is never written to. Raises CannotCreate, StorageFailed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    except OSError as error:
        raise _in_words(path, error) from error


def replace(path: Path, pieces: Iterable[str]) -> None:
    """Replace a file by these pieces of text, or make it; it is for its owner alone. Raises CannotCreate, StorageFailed."""
    try:
        _refuse_what_is_no_file(path)
        descriptor, made = tempfile.mkstemp(prefix=".flow-", dir=path.parent)  # 0600, O_EXCL, O_NOFOLLOW
    except (OSError, ValueError) as error:
        raise _in_words(path, error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException as error:
        with suppress(OSError):
            Path(made).unlink()
        if isinstance(error, OSError):
            raise _in_words(path, error) from error
        raise


def _refuse_what_is_no_file(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no ordinary file"
        raise CannotCreate(f"{path} is {what}: it is not replaced", hint=f"ls -ld {quote(str(path))}")


def _in_words(path: Path, error: OSError | ValueError) -> FlowError:
    reason = getattr(error, "strerror", None) or str(error)
    if getattr(error, "errno", None) in _DISK:
        return StorageFailed(f"{path} cannot be written: {reason}", hint=f"df {quote(str(path.parent))}")
    return CannotCreate(f"{path} cannot be made: {reason}", hint=f"ls -ld {quote(str(path.parent))}")
