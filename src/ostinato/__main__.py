"""The program `ostinato`, and `python -m ostinato`: a sentence, and no traceback, where its libraries are missing."""

import sys


def main() -> None:
    """Run the program. Ctrl-C also ends it in silence while it imports."""
    try:
        _main()
    except KeyboardInterrupt:
        sys.exit(130)


def _main() -> None:
    from ostinato.cli.client import BAD_INPUT
    from ostinato.config.extras import need_command_line
    from ostinato.core.errors import MissingExtra

    try:
        need_command_line("The command line")
    except MissingExtra as error:
        sys.stderr.write(f"{error} A worker needs only app.run().\n")
        sys.exit(BAD_INPUT)
    from ostinato.program import main as run

    run()


if __name__ == "__main__":
    main()
