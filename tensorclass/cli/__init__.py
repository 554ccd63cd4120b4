"""The `tensorclass` command; every subcommand is a file here, imported when it is called."""

from ._main import main as main
