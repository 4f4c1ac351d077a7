"""Errors a user can act on: one sentence with the value, one hint with the next command."""


class Day0Error(Exception):
    """What is wrong with a value and what is allowed; `hint` holds the next command.

    `exit_code` follows DESIGN section 5: 2 the user can fix the call, 3 does not fit or an
    illegal plan, 4 needs operators or facts that do not exist yet.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class DoesNotFit(Day0Error):
    """A model or a plan that the stated hardware cannot hold."""

    exit_code = 3


class Interrupted(Day0Error):
    """The user pressed Ctrl-C; the exit code is a shell's for SIGINT."""

    exit_code = 130


class NotSupported(Day0Error):
    """Needs an operator or a fact that does not exist yet."""

    exit_code = 4
