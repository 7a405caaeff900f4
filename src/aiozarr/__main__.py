"""`python -m aiozarr` is the command line."""

from aiozarr.cli import main

if __name__ == "__main__":
    main()
