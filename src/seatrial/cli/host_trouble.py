# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the operating system that say something of this host, and not of Seatrial."""

import errno

_REMEDIES = {
    errno.ENOSPC: "Make room there, and start the command again.",
    errno.EDQUOT: "Make room within the quota, and start the command again.",
    errno.EFBIG: "Files may not grow that large here: see ulimit -f, or use another disk.",
    errno.EROFS: "Work in a directory that can be written to.",
    errno.EACCES: "Check its permissions, or work in a directory of your own.",
    errno.EPERM: "Check its permissions, or work in a directory of your own.",
    errno.EMFILE: "Too many files are open: see ulimit -n.",
    errno.ENFILE: "Too many files are open on this host.",
    errno.ENOMEM: "End other programs, or use a host with more memory.",
    errno.EIO: "The disk, or the network to it, fails: look at the kernel's log (dmesg).",
    errno.ESTALE: "The network file system has lost it: mount it again.",
    errno.ENETUNREACH: "Check the network of this host.",
    errno.EHOSTUNREACH: "Check the network of this host.",
}
"""What to do about each."""
_NO_TEMPORARY = "No usable temporary directory"
"""What Python's `tempfile` says when it could write nowhere."""


def trouble_of(error: BaseException) -> str:
    """What is wrong with the host and what to do, in a line; empty where it is not the host."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {_REMEDIES[errno.ENOMEM]}"
    if isinstance(error, FileNotFoundError) and _NO_TEMPORARY in str(error.strerror):
        return "no directory for temporary files can be written to. Make room, or set TMPDIR."
    if not isinstance(error, OSError) or error.errno not in _REMEDIES:
        return ""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}. {_REMEDIES[error.errno]}"
