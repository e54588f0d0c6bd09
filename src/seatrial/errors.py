# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The errors that users see, and the exit code of each.

::

    SeatrialError                  1  an error that the user can fix
    ├── FindingsError              1  a spec, a plan or a check reported errors
    │   └── ClusterError           4  a cluster does not respond, or refuses a request
    ├── UsageError                 2  the command line is invalid
    │   └── NotInCatalogError      2  a catalog entry or recipe does not exist
    ├── UnreadableError            2  a file is missing, or is not valid text, YAML or TOML
    ├── StoreError, InputError     1  an object store does not respond; an input is invalid
    ├── OtherDataError             1  the target already contains different data
    ├── TaskFailedError, RayError  1  a data preparation task, or Ray, fails
    └── MissingExtraError          3  a command needs an extra that is not installed

Any other exception that reaches the CLI is a bug in Seatrial and exits with 70.
"""

import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import NoReturn

from seatrial.findings import Finding, Severity
from seatrial.secrets.redaction import redact


class ExitCode(IntEnum):
    """The exit codes. The reference page is generated from these docstrings."""

    OK = 0
    """Success. There may be warnings."""
    FINDINGS = 1
    """At least one finding of severity `error` was reported."""
    USAGE = 2
    """The command line is invalid, or a file cannot be read or parsed."""
    MISSING_EXTRA = 3
    """The command needs an extra that is not installed. The message names it."""
    CLUSTER = 4
    """The cluster does not respond, or refuses the request."""
    RUN_FAILED = 5
    """The run failed or was stopped (`wait`)."""
    STILL_RUNNING = 6
    """The run was still running at the timeout (`wait`)."""
    INTERNAL = 70
    """A bug in Seatrial. Please report it and attach the file that the message names."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""


class SeatrialError(Exception):
    """The base class of errors that a user can fix. The message states the fix."""

    exit_code: int = ExitCode.FINDINGS

    def __init__(self, *given: object) -> None:
        """Redact the message: callers may print it."""
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in given))


class FindingsError(SeatrialError):
    """A spec or a plan has errors. `findings` contains all errors and warnings."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        """Use the findings of severity `error` as the message."""
        self.findings = tuple(findings)
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        super().__init__("\n".join(finding.one_line() for finding in errors))


class UsageError(SeatrialError):
    """The caller passed an invalid argument, such as an unknown name."""

    exit_code = ExitCode.USAGE


class NotInCatalogError(UsageError):
    """A name that is in neither the shipped nor the user's catalog."""

    def __init__(self, rule: str, fix: str) -> None:
        """Keep what is wrong and how to fix it apart. The message contains both."""
        self.rule, self.fix = rule, fix
        super().__init__(f"{rule} {fix}")


class UnreadableError(SeatrialError):
    """A file is missing, too large, or not valid text."""

    exit_code = ExitCode.USAGE

    def __init__(self, finding: Finding) -> None:
        """Use the finding about the file as the message."""
        self.finding = finding
        super().__init__(finding.one_line())


class MissingExtraError(SeatrialError):
    """A command needs an extra that is not installed."""

    exit_code = ExitCode.MISSING_EXTRA

    def __init__(self, text: str, *, extra: str = "") -> None:
        """Set Seatrial's extra to install; empty if a different command installs the package."""
        self.extra = extra
        super().__init__(text)


def exit_with(code: int) -> NoReturn:
    """Exit with a code, also after a Ctrl-C that was handled.

    If Ctrl-C arrives while Python runs source text (as a library does to make a class), Python
    notes an unhandled interrupt and ends itself with SIGINT at the exit, even if the interrupt was
    handled. Running other source text clears the note.
    """
    eval("0")  # noqa: S307  (a constant)
    sys.exit(code)
