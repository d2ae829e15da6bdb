"""`dcastle <verb>`: finds the verb's module, runs it, turns errors into one line and an exit code.

Each verb is `scripts/<verb>.py` with a click command named `command`. It is imported when it is
called, so that `dcastle --help` stays quick and no command pays for another's imports.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from typing import Final

import click

from core.errors import DcastleError

# What each verb is for. A verb is listed here when its module exists.
VERBS: Final = {
    "init": "Draft a commented dcastle.toml from a data file.",
    "anonymize": "Anonymise one site's stream: k-anonymous, l-diverse, within the delay.",
    "verify": "Audit a published stream; exit 1 on a breach.",
    "simulate": "Simulate distributed sites on this machine; compare and measure.",
    "bench": "Measure the core and the way from CSV to CSV.",
    "data": "List the named data sets and where they are.",
}

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
EXIT_BAD_ARGUMENTS: Final = 4
EXIT_INTERNAL: Final = 5
EXIT_INTERRUPTED: Final = 130


class VerbGroup(click.Group):
    """A click group that imports a verb's module only when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order a newcomer meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, or None for an unknown word."""
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"scripts.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table above, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dcastle", prog_name="dcastle")
def dcastle() -> None:
    """Publish one anonymised stream of personal records.

    \b
    Examples:
      dcastle init visits.csv > dcastle.toml
      dcastle anonymize visits.csv -o published.csv -c dcastle.toml
      dcastle verify published.csv -c dcastle.toml

    Exit codes: 0 ok, 1 failure or breach, 2 connection or auth, 3 timeout, 4 bad arguments
    or schema, 5 internal.
    """


def main() -> None:
    """Run `dcastle` and leave with the exit code the operators know."""
    # A service manager's stop is the user's: what is half done is taken back.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; nothing escapes as a traceback."""
    try:
        result = dcastle.main(args=arguments, prog_name="dcastle", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as stop:
        click.echo(stop.format_message())
        return EXIT_BAD_ARGUMENTS
    except click.UsageError as error:
        error.show()
        return EXIT_BAD_ARGUMENTS
    except click.Abort:
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return EXIT_FAILURE
    except DcastleError as error:
        _complain(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`dcastle ... | head`): no complaint, no second flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except OSError as error:
        _complain(error)
        return EXIT_FAILURE
    except Exception:
        click.echo("dcastle: internal error, please report it with the lines below", err=True)
        traceback.print_exc()
        return EXIT_INTERNAL
    return result if isinstance(result, int) else EXIT_OK


def _complain(error: Exception) -> None:
    for line in str(error).splitlines() or [type(error).__name__]:
        click.echo(f"dcastle: {line}", err=True)


if __name__ == "__main__":
    main()
