"""`tensorclass completion`: a shell script with the commands and options of this version."""

from __future__ import annotations

import argparse

from ._main import parser_of

SCRIPT = """\
# tensorclass: completion for {shell}, written by `tensorclass completion {shell}`.
{head}_tensorclass() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words="{names} --version --help"
    if [ "$COMP_CWORD" -gt 1 ]; then
        case "${{COMP_WORDS[1]}}" in
{cases}
            *) words="" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ "$word" != -* && "$COMP_CWORD" -gt 1 ]]; then
        COMPREPLY+=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _tensorclass tensorclass
"""
HEADS = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = 'Print a script: `eval "$(tensorclass completion bash)"` in ~/.bashrc; the same for zsh.'
    parser.add_argument("shell", choices=[*HEADS], help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    commands = next(a for a in parser_of("*")._actions if isinstance(a, argparse._SubParsersAction)).choices
    rows = []
    for name, sub in commands.items():
        words = [word for action in sub._actions for word in (*action.option_strings, *(action.choices or ()))]
        rows.append(f'            {name}) words="{" ".join(words)}" ;;')
    texts = {"names": " ".join(commands), "cases": "\n".join(rows), "head": HEADS[arguments.shell]}
    print(SCRIPT.format(shell=arguments.shell, **texts), end="")
    return 0
