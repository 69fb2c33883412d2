"""`python -m ostinato`: the same as the program `ostinato`."""

from ostinato.program import main

if __name__ == "__main__":
    main()
