# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The command `seatrial`: which commands there are, and how failures end."""

import _thread
import errno
import gc
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.completion import install_callback, show_callback
from typer.core import TyperGroup

from seatrial.cli.options import NO_NEXT
from seatrial.errors import (
    ExitCode,
    FindingsError,
    SeatrialError,
    UnreadableError,
    UsageError,
)
from seatrial.findings import Finding
from seatrial.naming import nearest
from seatrial.reports.terminal import (
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
    errno.ENOSPC: "Make room there, and start the command again.",
    errno.EDQUOT: "Make room within the quota, and start the command again.",
    errno.EFBIG: "Files may not grow that large here: see ulimit -f, or use another disk.",
    errno.EROFS: "Work in a directory that can be written to.",
    errno.EACCES: "Check its permissions, or work in a directory of your own.",
    errno.EPERM: "Check its permissions, or work in a directory of your own.",
    errno.ENAMETOOLONG: "Check the path: a name on a disk has at most 255 bytes.",
    errno.ELOOP: "Check its symbolic links: they lead to each other.",
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


_LONGEST = 200


def _shortened(path: str) -> str:
    return path if len(path) <= _LONGEST else f"{redact(path)[:_LONGEST]}..."


def trouble_of(error: BaseException) -> str:
    """What is wrong with the host and what to do, in a line; empty where it is not the host."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {_REMEDIES[errno.ENOMEM]}"
    if isinstance(error, FileNotFoundError) and _NO_TEMPORARY in str(error.strerror):
        return "no directory for temporary files can be written to. Make room, or set TMPDIR."
    if not isinstance(error, OSError) or error.errno not in _REMEDIES:
        return ""
    named = str(error.filename or "")
    where = f"{_shortened(named)}: " if named else ""
    return f"{where}{error.strerror}. {_REMEDIES[error.errno]}"


COMMANDS = {
    "doctor": "Show what is installed, what is missing for which command, and how to get it.",
    "init": "Write a commented run.yaml from a preset model and a cluster profile.",
    "run": "Walk a run through all of its steps; it goes on where it stopped.",
    "validate": "Check specs and show what they resolve to.",
    "plan": "Find the fastest layout that fits; show its memory, time, cost, and why.",
    "check": "Check every contract of a run before a GPU is asked for.",
    "data": "Prepare, estimate, verify and inspect the data of a run.",
    "rehearse": "Train a shrunk twin of a run with the real engine on this host's CPU.",
    "render": "Write the Kubernetes manifests of a run, or compare them with a cluster.",
    "launch": "Submit a run to its cluster or start it here; twice does nothing.",
    "status": "Show how a run is, and why.",
    "logs": "Print what the processes of a run print, all ranks or one.",
    "watch": "Show a run while it goes on: curves, ranks, goodput, when it will be done.",
    "report": "Write what a run was like into one HTML file, with plots.",
    "diagnose": "Say why a run stopped, hangs or is slow, with the lines that prove it.",
    "wait": "Wait until a run is over; the exit code says how it ended.",
    "list": "List the runs of a namespace, and of this directory.",
    "stop": "End the processes of a run; they save first.",
    "delete": "Remove a run from its cluster or this host; its volume stays.",
    "forward": "Show TensorBoard of a run on a port of this host.",
    "checkpoints": "List, verify, prune, pin, copy, export checkpoints; ask what can resume.",
    "calibrate": "Fit the planner to a few measured steps of a run.",
    "spec": "Bring specs of an older format to the newest one.",
    "engines": "Install training engines, and show what a run tells its engine.",
    "schema": "Print the JSON Schema of a spec, for editors.",
    "catalog": "Look up models, accelerators, node types, fabrics, storage, images, profiles.",
    "explain": "Tell the background of a finding, with its source.",
    "recipes": "List, show and copy the specs that come with Seatrial.",
}
"""The commands and their summaries; a command's module is loaded when it is called."""

TERMINATED = 143
"""What a shell reports of a program that was asked to end (128 + SIGTERM)."""
CLOSED_PIPE = 141
"""What a shell reports of a program whose reader has gone (128 + SIGPIPE)."""
_NO_CHOICE = re.compile(r"(?:Value error, )?'(?P<given>[^']*)' is not one of (?P<known>'.+')\.?")
"""How typer refuses a word that is none of those an option or argument takes."""


@contextmanager
def _told_when_stopped() -> Iterator[None]:
    """Say that a command was stopped; typer alone would end it without a word."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        say_error("\nStopped.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


class LazyGroup(TyperGroup):
    """The root command: knows its commands by name, and loads one when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands, in the order of a run's journey."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, loaded now."""
        if cmd_name not in COMMANDS:
            return None
        app: typer.Typer = import_module(f"seatrial.cli.{cmd_name}").app
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; a misspelt one is answered with the nearest."""
        called = args[0]
        if called not in COMMANDS:
            match = nearest(called, COMMANDS)
            hint = f"Did you mean {match}?" if match else "All commands: seatrial --help."
            ctx.fail(f"No such command {called!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list in `--help`, without loading any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; the shell may stand behind those about completion.

        Typer takes the shell that it runs in, and ignores the one that is named.
        """
        callbacks = {
            "--show-completion": show_callback,
            "--install-completion": install_callback,
        }
        if len(args) == 2 and args[0] in callbacks:
            callbacks[args[0]](ctx, ctx.command.params[0], args[1])
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """The call as typer sees it; `--help` and `--version` print here."""
        with _told_when_stopped(), guarded_output():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C, and Ctrl-D at a question, end it."""
        with _told_when_stopped(), guarded_output():
            return super().invoke(ctx)


app = typer.Typer(
    name="seatrial",
    cls=LazyGroup,
    help="Carry a language-model pretraining run from a raw corpus to a verified checkpoint.",
    epilog="Start with: seatrial doctor, seatrial init, seatrial run RUN.YAML",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    """Print the version and stop."""
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
    """Carry a language-model pretraining run from a raw corpus to a verified checkpoint."""
    if no_next:
        context.with_resource(hidden_next())


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    try:
        sys.exit(_started())
    except KeyboardInterrupt:
        # Pressed before the command had begun, or while its end was told.
        say_error("\nStopped.")
        sys.exit(ExitCode.INTERRUPTED)


def _started() -> int:
    """The exit code of the whole process."""
    # What a start makes is kept, so looking for garbage in it is in vain: 7 % of `validate`.
    gc.set_threshold(100_000)
    # Pydantic would look for plugins in every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # With its standard output closed, a process has none.
    if sys.stdout is None:
        say_error("seatrial: the output cannot be written: it is closed.")
        return ExitCode.USAGE
    prepare_streams()
    # Asked to end, a command ends what it has started, as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    sys.unraisablehook = _pass_interrupt_on
    try:
        return _run(_count_interrupts())
    except OutputLostError as lost:
        return _give_up_output(lost.__cause__)


def _count_interrupts() -> list[int]:
    """A list that every Ctrl-C adds to; a process that ignores them goes on to do so."""
    interrupts: list[int] = []
    handler = signal.getsignal(signal.SIGINT)

    if callable(handler):
        before = handler

        def interrupted(number: int, frame: FrameType | None) -> None:
            interrupts.append(number)
            before(number, frame)

        signal.signal(signal.SIGINT, interrupted)
    return interrupts


def _pass_interrupt_on(lost: Any) -> None:
    """Press Ctrl-C once more where it came in a moment in which Python can raise nothing.

    Such are the callbacks of weak references, of which an import has many: Python would print a
    traceback and go on.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # A moment later: here, too, nothing can be raised.
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon() -> None:
    time.sleep(0.02)
    _thread.interrupt_main()


def _run(interrupts: list[int]) -> int:
    """The exit code of the command; what a user can mend ends in a message."""
    arguments = sys.argv[1:]
    # Errors of the command line itself obey it too, and of those nothing is parsed.
    as_json = "--json" in arguments
    with guarded_output():
        try:
            code: int | None = app(arguments, prog_name="seatrial", standalone_mode=False)
        except SeatrialError as error:
            return _refuse(error, as_json=as_json)
        except typer.TyperException as error:
            return _refuse_words(error, as_json=as_json)
        except OutputLostError:
            raise
        except Exception as error:
            # Pydantic makes an error of its own of a Ctrl-C while it builds a model.
            if interrupts:
                say_error("\nStopped.")
                return ExitCode.INTERRUPTED
            trouble = trouble_of(error)
            if trouble:
                return _refuse(UsageError(trouble), as_json=as_json)
            return _report_defect(error, as_json=as_json)
        return code or ExitCode.OK


def _refuse_words(error: typer.TyperException, *, as_json: bool) -> int:
    """Say what is wrong with the words of a command line."""
    error.message = redact(_with_nearest(error.message))
    # Errors of the command line also print the usage; typer names their class nowhere in public.
    show = getattr(error, "show", None)
    if as_json:
        say_json({"error": error.format_message(), "findings": []})
    elif show is None:
        say_error(f"seatrial: {error.format_message()}")
    else:
        show()
    return error.exit_code


def _with_nearest(message: str) -> str:
    """What typer says of a wrong choice, with the one that was most likely meant."""
    refused = _NO_CHOICE.fullmatch(message)
    if refused is None:
        return message
    known = re.findall(r"'([^']*)'", refused["known"])
    match = nearest(refused["given"], known)
    hint = f" Did you mean {match}?" if match else ""
    return f"{refused['given']!r} is not one of {', '.join(known)}.{hint}"


def _refuse(error: SeatrialError, *, as_json: bool) -> int:
    """Say what the user can mend."""
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
    """End without an output: quietly where its reader has gone, as `head` does, else in words."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    reason = error.strerror if isinstance(error, OSError) else error
    say_error(f"seatrial: the output cannot be written: {reason}.")
    return ExitCode.USAGE


def _report_defect(error: Exception, *, as_json: bool) -> int:
    """Keep the traceback of a defect of ours in a file and say where it is."""
    # Loaded here because every start would pay for them.
    from tempfile import NamedTemporaryFile  # noqa: PLC0415
    from traceback import format_exception  # noqa: PLC0415

    told = redact("".join(format_exception(error)))
    try:
        with NamedTemporaryFile("w", prefix="seatrial-", suffix=".txt", delete=False) as file:
            file.write(told)
        kept = file.name
    except OSError:
        kept = ""
    said = f"this is a defect of Seatrial, not of your spec: {error}"
    if as_json:
        say_json({"error": said, "findings": [], "report": kept})
    say_error(f"seatrial: {said}")
    if kept:
        say_error(f"Please report it with {kept}, which says where it happened.")
    else:
        say_error(f"Please report it with this, for which there was no room on a disk:\n{told}")
    return ExitCode.INTERNAL
