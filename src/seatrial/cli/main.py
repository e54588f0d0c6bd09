# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The `seatrial` command: its subcommands, and how it reports failures."""

import _thread
import errno
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.completion import install_callback, show_callback
from typer.core import TyperGroup

from seatrial.cli.interrupts import count_interrupts, raise_unless_reported, say_stopped
from seatrial.cli.options import examples
from seatrial.errors import (
    ExitCode,
    FindingsError,
    SeatrialError,
    UnreadableError,
    UsageError,
    exit_with,
)
from seatrial.findings import Finding
from seatrial.naming import nearest
from seatrial.reports.terminal import (
    NO_NEXT,
    OutputLostError,
    count_line,
    guarded_output,
    hidden_next,
    prepare_streams,
    say,
    say_error,
    say_findings,
    say_json,
)
from seatrial.secrets.redaction import redact
from seatrial.version import VERSION

_REMEDIES = {
    errno.ENOSPC: "Free disk space, then rerun the command.",
    errno.EDQUOT: "Free space within the quota, then rerun the command.",
    errno.EFBIG: "The file exceeds the size limit. Raise it (ulimit -f) or use a different disk.",
    errno.EROFS: "Use a writable directory.",
    errno.EACCES: "Check the permissions, or use a directory that you own.",
    errno.EPERM: "Check the permissions, or use a directory that you own.",
    errno.ENAMETOOLONG: "Shorten the path: a file name has at most 255 bytes.",
    errno.ELOOP: "Check its symbolic links: they form a loop.",
    errno.EMFILE: "Too many files are open. Raise the limit: ulimit -n.",
    errno.ENFILE: "Too many files are open on this host.",
    errno.ENOMEM: "Stop other programs, or use a host with more memory.",
    errno.EIO: "The disk or its network connection is failing. See the kernel log (dmesg).",
    errno.ESTALE: "The network file system lost this file. Remount it.",
    errno.ENETUNREACH: "Check this host's network.",
    errno.EHOSTUNREACH: "Check this host's network.",
}
_NO_TEMPORARY = "No usable temporary directory"
"""The message of Python's `tempfile` if no directory is writable."""


_LONGEST = 200


def _shortened(path: str) -> str:
    return path if len(path) <= _LONGEST else f"{redact(path)[:_LONGEST]}..."


def host_problem(error: BaseException) -> str:
    """Describe a problem with this host and its fix. Empty if the host is not the cause."""
    if isinstance(error, MemoryError):
        return f"out of memory. {_REMEDIES[errno.ENOMEM]}"
    if isinstance(error, FileNotFoundError) and _NO_TEMPORARY in str(error.strerror):
        return "no temporary directory is writable. Free disk space, or set TMPDIR."
    if not isinstance(error, OSError) or error.errno not in _REMEDIES:
        return ""
    named = str(error.filename or "")
    where = f"{_shortened(named)}: " if named else ""
    return f"{where}{error.strerror}. {_REMEDIES[error.errno]}"


GROUPS = {
    "Start": {
        "doctor": "Show what is installed, what is missing, and how to install it.",
        "init": "Write a commented run.yaml for a model and a cluster profile.",
        "recipes": "List, show and copy the specs that ship with Seatrial.",
        "run": "Take a run through every step; rerun to continue.",
    },
    "Plan": {
        "validate": "Check specs and show the values they resolve to.",
        "plan": "Find the fastest layout that fits; show memory, time and cost.",
        "check": "Check a run for errors before it uses a GPU.",
        "rehearse": "Train a small twin of a run on a CPU with the real engine.",
        "calibrate": "Calibrate the planner with a few measured step times of a run.",
    },
    "Data": {
        "data": "Prepare, estimate, verify and inspect training data.",
    },
    "Run": {
        "site": "Print what an administrator installs in a cluster, with versions.",
        "images": "List, save, build and push the container images of a run.",
        "render": "Print or write the Kubernetes manifests for a run.",
        "launch": "Submit a run to its cluster, or start it on this host.",
        "sweep": "Launch the variants of a spec in turn, and compare them.",
        "wait": "Wait for a run to finish; the exit code is its result.",
        "stop": "Stop a run; it saves a checkpoint first.",
        "delete": "Delete a run from its cluster or this host; its volume is kept.",
    },
    "Observe": {
        "list": "List the runs in a namespace and in this directory.",
        "status": "Show the state of a run and the reasons for it.",
        "logs": "Print the output of a run's processes, for all ranks or one.",
        "watch": "Watch a run live: curves, ranks, goodput, time left.",
        "report": "Write an HTML report of a run.",
        "diagnose": "Find out why a run stopped, hangs or is slow.",
        "forward": "Forward a run's TensorBoard to a local port.",
    },
    "Checkpoints": {
        "checkpoints": "List, verify, prune, copy, export, try and import checkpoints.",
    },
    "Reference": {
        "catalog": "Look up models, accelerators, node types, fabrics and images.",
        "explain": "Explain a finding and name its sources.",
        "engines": "Install training engines, and show an engine's settings.",
        "spec": "Upgrade specs to the current format.",
        "schema": "Print the JSON Schema of a spec, for editors.",
    },
}
"""The groups of `--help`: each command and its summary."""
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""Every command and its summary. A command's module is loaded when it is called."""
OTHER_NAMES = {
    **dict.fromkeys(("train", "submit", "apply", "start", "up", "create"), "launch"),
    **dict.fromkeys(("ls", "ps"), "list"),
    **dict.fromkeys(("rm", "destroy", "down"), "delete"),
    **dict.fromkeys(("cancel", "kill"), "stop"),
    **dict.fromkeys(("describe", "show"), "status"),
    **dict.fromkeys(("prepare", "tokenize", "preprocess", "estimate"), "data"),
    **dict.fromkeys(("export", "import", "verify", "prune", "resume"), "checkpoints"),
    **dict.fromkeys(("models", "gpus"), "catalog"),
    **dict.fromkeys(("lint", "preflight"), "check"),
    **dict.fromkeys(("dryrun", "dry-run", "simulate", "test"), "rehearse"),
    **dict.fromkeys(("tail", "log"), "logs"),
    "new": "init",
    **dict.fromkeys(("ablation", "ablate", "variants"), "sweep"),
    "tensorboard": "forward",
    "install": "engines",
}
"""Command names from other tools, and the equivalent Seatrial command."""

TERMINATED = 143
"""The exit code after SIGTERM (128 + 15)."""
CLOSED_PIPE = 141
"""The exit code after SIGPIPE (128 + 13)."""
_NO_CHOICE = re.compile(r"(?:Value error, )?'(?P<given>[^']*)' is not one of (?P<known>'.+')\.?")
"""Typer's message for a value that is not one of an option's choices."""


@contextmanager
def _report_interrupt() -> Iterator[None]:
    """Print that the command was interrupted; typer alone exits silently."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        say_stopped()
        raise typer.Exit(ExitCode.INTERRUPTED) from None


class LazyGroup(TyperGroup):
    """The root command. It loads a subcommand's module only when that subcommand is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        app: typer.Typer = import_module(f"seatrial.cli.{cmd_name}").app
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or suggest the nearest one for a misspelt name."""
        called = args[0]
        if called not in COMMANDS:
            match = OTHER_NAMES.get(called.lower()) or nearest(called, COMMANDS)
            hint = f"Did you mean {match}?" if match else "All commands: seatrial --help."
            ctx.fail(f"No such command {called!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by group, without loading any of them."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<11}", text) for name, text in commands.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options. The completion options accept the name of a shell.

        Typer ignores that name and always uses the current shell.
        """
        callbacks = {
            "--show-completion": show_callback,
            "--install-completion": install_callback,
        }
        if len(args) == 2 and args[0] in callbacks:
            callbacks[args[0]](ctx, ctx.command.params[0], args[1])
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Parse the command line; `--help` and `--version` print here."""
        with _report_interrupt(), guarded_output():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C, or Ctrl-D at a prompt, stops it."""
        with _report_interrupt(), guarded_output():
            return super().invoke(ctx)


app = typer.Typer(
    name="seatrial",
    cls=LazyGroup,
    help="Take a language-model pretraining run from a raw corpus to a verified checkpoint.",
    epilog=examples("seatrial init", "seatrial plan run.yaml", "seatrial run run.yaml"),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        say(VERSION)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    no_next: Annotated[
        bool, typer.Option(NO_NEXT, hidden=True, help="Do not name the next command.")
    ] = False,
) -> None:
    """Take a language-model pretraining run from a raw corpus to a verified checkpoint."""
    if no_next:
        context.with_resource(hidden_next())


def main() -> NoReturn:
    """Run the CLI and exit with its exit code."""
    try:
        code = _started()
    except KeyboardInterrupt:
        # Ctrl-C before the command started, or while its result was printed.
        say_stopped()
        code = ExitCode.INTERRUPTED
    exit_with(code)


def _started() -> int:
    """Set up the process, run the command, and return its exit code."""
    # Pydantic searches every installed package for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # A process started with a closed standard output has none.
    if sys.stdout is None:
        say_error("seatrial: cannot write to standard output: it is closed.")
        return ExitCode.USAGE
    prepare_streams()
    # On SIGTERM, stop child processes, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    sys.unraisablehook = _pass_interrupt_on
    try:
        return _run(count_interrupts())
    except OutputLostError as lost:
        return _give_up_output(lost.__cause__)


def _pass_interrupt_on(lost: Any) -> None:
    """Raise Ctrl-C again if it arrived where Python cannot raise an exception.

    One example is a weak-reference callback, which runs in every import: Python would print a
    traceback and continue.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # Later, because an exception cannot be raised here either.
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon() -> None:
    time.sleep(0.02)
    raise_unless_reported()


def _run(interrupts: list[int]) -> int:
    """Run the command and return its exit code. Turn user errors into messages."""
    arguments = sys.argv[1:]
    # Usage errors obey --json too, although typer parses nothing then.
    as_json = "--json" in arguments
    with guarded_output():
        try:
            code: int | None = app(arguments, prog_name="seatrial", standalone_mode=False)
        except SeatrialError as error:
            return _refuse(error, as_json=as_json)
        except typer.TyperException as error:
            return _refuse_arguments(error, as_json=as_json)
        except OutputLostError:
            raise
        except Exception as error:
            # Pydantic replaces a Ctrl-C with its own error while it builds a model.
            if interrupts:
                say_stopped()
                return ExitCode.INTERRUPTED
            problem = host_problem(error)
            if problem:
                return _refuse(UsageError(problem), as_json=as_json)
            return _report_defect(error, as_json=as_json)
        return code or ExitCode.OK


def _refuse_arguments(error: typer.TyperException, *, as_json: bool) -> int:
    """Report invalid arguments of the command line."""
    error.message = redact(_with_nearest(error.message))
    # Usage errors also print the usage; their class is not part of typer's public API.
    show = getattr(error, "show", None)
    if as_json:
        say_json({"error": error.format_message(), "findings": []})
    elif show is None:
        say_error(f"seatrial: {error.format_message()}")
    else:
        show()
    return error.exit_code


def _with_nearest(message: str) -> str:
    """Add the nearest choice to typer's message about an invalid one."""
    refused = _NO_CHOICE.fullmatch(message)
    if refused is None:
        return message
    known = re.findall(r"'([^']*)'", refused["known"])
    match = nearest(refused["given"], known)
    hint = f" Did you mean {match}?" if match else ""
    return f"{refused['given']!r} is not one of {', '.join(known)}.{hint}"


def _refuse(error: SeatrialError, *, as_json: bool) -> int:
    """Report an error that the user can fix."""
    findings: tuple[Finding, ...] = ()
    if isinstance(error, FindingsError):
        findings = error.findings
    elif isinstance(error, UnreadableError):
        findings = (error.finding,)
    if as_json:
        say_json({"error": str(error), "findings": [finding.to_dict() for finding in findings]})
    elif findings:
        say_findings(findings)
        say_error(f"\n{count_line(findings)}")
    else:
        say_error(f"seatrial: {error}")
    return error.exit_code


def _give_up_output(error: BaseException | None) -> int:
    """Exit after standard output was lost: silently if its reader exited, else with a message."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    reason = error.strerror if isinstance(error, OSError) else error
    say_error(f"seatrial: cannot write to standard output: {reason}.")
    return ExitCode.USAGE


def _report_defect(error: Exception, *, as_json: bool) -> int:
    """Write the traceback of a bug in Seatrial to a file and print its path."""
    # Imported here to keep start-up fast.
    from tempfile import NamedTemporaryFile  # noqa: PLC0415
    from traceback import format_exception  # noqa: PLC0415

    trace = redact("".join(format_exception(error)))
    try:
        with NamedTemporaryFile("w", prefix="seatrial-", suffix=".txt", delete=False) as file:
            file.write(trace)
        kept = file.name
    except OSError:
        kept = ""
    message = f"this is a bug in Seatrial, not an error in your spec: {error}"
    if as_json:
        say_json({"error": message, "findings": [], "report": kept})
    say_error(f"seatrial: {message}")
    if kept:
        say_error(f"Please report it and attach {kept}, which contains the traceback.")
    else:
        say_error(
            f"Please report it with this traceback, which could not be written to disk:\n{trace}"
        )
    return ExitCode.INTERNAL
