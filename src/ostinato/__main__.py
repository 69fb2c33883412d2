"""The program `ostinato`, and `python -m ostinato`: a sentence, and no traceback, where its libraries are missing."""

import sys

from ostinato.cli.client import BAD_INPUT
from ostinato.config.extras import COMMAND_LINE, need
from ostinato.core.errors import MissingExtra


def main() -> None:
    """Run the program."""
    try:
        for module in COMMAND_LINE:
            need("standard", module, "The command line")
    except MissingExtra as error:
        sys.stderr.write(f"{error} A worker needs only app.run().\n")
        sys.exit(BAD_INPUT)
    from ostinato.program import main as run

    run()


if __name__ == "__main__":
    main()
