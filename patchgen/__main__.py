"""`python -m patchgen` is `switchml-patch`."""

from patchgen.cli import main

if __name__ == "__main__":
    main()
