"""``python -m serq`` is the command ``serq``."""

from serq.cli import main

if __name__ == "__main__":
    main(prog_name="serq")
