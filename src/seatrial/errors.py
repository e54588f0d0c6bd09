# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, and the exit code that each kind of failure ends the command with.

::

    SeatrialError                  1  something the user can mend
    ├── FindingsError              1  a spec, a plan or a check reported errors
    │   └── ClusterError           4  a cluster does not answer, or refuses
    ├── UsageError                 2  the command line asks for something impossible
    │   └── NotInCatalogError      2  a name that no catalog entry or recipe has
    ├── UnreadableError            2  a file is absent, is not text or is not YAML or TOML
    ├── StoreError, InputError     1  a store does not answer, an input is not as it should be
    ├── OtherDataError             1  where data should go are others already
    ├── TaskFailedError, RayError  1  a task of data preparation, or Ray, does not come to an end
    └── MissingExtraError          3  a command needs an extra that is not installed

Anything else that reaches the command line is a defect of Seatrial and exits with 70.
"""

from collections.abc import Sequence
from enum import IntEnum

from seatrial.findings import Finding, Severity
from seatrial.secrets.redaction import redact


class ExitCode(IntEnum):
    """The meaning of every exit code; the documentation's table is made from it."""

    OK = 0
    """The command did what was asked; there may be warnings."""
    FINDINGS = 1
    """At least one finding of severity `error` was reported."""
    USAGE = 2
    """The command line is wrong, or a file cannot be read as what it should be."""
    MISSING_EXTRA = 3
    """An optional part of Seatrial is needed and not installed; the message names the extra."""
    CLUSTER = 4
    """The cluster does not answer, or refuses what was asked."""
    RUN_FAILED = 5
    """The run that was waited for has failed, or was stopped."""
    STILL_RUNNING = 6
    """The run that was waited for had not ended when the time was up."""
    INTERNAL = 70
    """A defect of Seatrial itself. Please report it with the file that the message names."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""


class SeatrialError(Exception):
    """The base of every error that a user can mend; its text says how."""

    exit_code = ExitCode.FINDINGS

    def __init__(self, *given: object) -> None:
        """Redact the text: whoever catches the error may print it."""
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in given))


class FindingsError(SeatrialError):
    """A spec or a plan broke rules; `findings` holds all of them, warnings included."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        """Keep the findings and use the errors among them as the message."""
        self.findings = tuple(findings)
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        super().__init__("\n".join(finding.one_line() for finding in errors))


class UsageError(SeatrialError):
    """The caller asked for something that cannot be, such as an unknown name."""

    exit_code = ExitCode.USAGE


class NotInCatalogError(UsageError):
    """A name that neither the shipped catalog nor the user's own has."""


class UnreadableError(SeatrialError):
    """A file is absent, is too large, or is not the text that it should be."""

    exit_code = ExitCode.USAGE

    def __init__(self, finding: Finding) -> None:
        """Keep the one finding that says what is wrong with the file."""
        self.finding = finding
        super().__init__(finding.one_line())


class MissingExtraError(SeatrialError):
    """A command needs an optional part that this installation does not have."""

    exit_code = ExitCode.MISSING_EXTRA

    def __init__(self, text: str, *, extra: str = "") -> None:
        """Keep the extra of Seatrial that installs it; empty if another command does."""
        self.extra = extra
        super().__init__(text)
