"""`bcs-scheduler manual`: manual pages and shell completion of `bcs` and `bcs-scheduler`, from their commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import get_completion_class

from bcs_scheduler.cli.lazy import COMPLETION
from bcs_scheduler.settings.command_line import fail
from bcs_scheduler.version import VERSION

PAGES = Path("man/man1")
COMPLETIONS = {
    "bash": "bash-completion/completions/{program}",
    "zsh": "zsh/site-functions/_{program}",
    "fish": "fish/vendor_completions.d/{program}.fish",
}
"""File of each shell, below a folder such as /usr/share."""
VERBATIM = "\b\n"
"""Click's mark of a paragraph that is not wrapped."""


@click.command("manual")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def manual(folder: Path) -> None:
    """Write manual pages and shell completion of bcs and bcs-scheduler below FOLDER.

    FOLDER is laid out as /usr/share: ~/.local/share serves one user.
    """
    files = {**pages(), **completions()}
    try:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    click.echo(f"{len(files)} files written below {folder}")


def programs() -> dict[str, click.Command]:
    from bcs_scheduler.cli.main import bcs
    from bcs_scheduler.main import main

    return {"bcs": bcs, "bcs-scheduler": main}


def pages() -> dict[Path, str]:
    """The manual page of each command that is not hidden, by its path below the folder."""
    found = [page for name, command in programs().items() for page in _pages_of(command, [name], None)]
    return {PAGES / page.file: page.text() for page in found}


def completions() -> dict[Path, str]:
    """The script of each program for each shell."""
    found = {}
    for program, command in programs().items():
        variable = COMPLETION if program == "bcs" else f"_{program.upper().replace('-', '_')}_COMPLETE"
        for shell, file in COMPLETIONS.items():
            made = get_completion_class(shell)
            assert made is not None
            # `source` of bash asks the installed bash for its version; the script is for any machine.
            writer = made(command, {}, program, variable)
            found[Path(file.format(program=program))] = writer.source_template % writer.source_vars()
    return found


class Page(NamedTuple):
    words: tuple[str, ...]
    """The words of the command line."""
    command: click.Command
    ctx: click.Context
    below: tuple[tuple[str, str], ...]
    """Commands of a group: names and short help."""

    @property
    def file(self) -> str:
        return f"{'-'.join(self.words)}.1"

    def text(self) -> str:
        title = "-".join(self.words)
        short = self.command.get_short_help_str(limit=1000).rstrip(".")
        usage = " ".join(self.command.collect_usage_pieces(self.ctx))
        parts = [
            f'.TH "{title.upper()}" "1" "" "bcs-scheduler {VERSION}"',
            f".SH NAME\n{_escaped(title)} \\- {_escaped(short[:1].lower() + short[1:])}",
            f".SH SYNOPSIS\n.B {_escaped(' '.join(self.words))}\n{_escaped(usage)}",
            ".SH DESCRIPTION\n" + _paragraphs(self.command.help or ""),
            *_terms("COMMANDS", self.below),
            *_terms("OPTIONS", _options(self.command, self.ctx)),
            *_rest(self.command.epilog or ""),
            *self._see_also(),
        ]
        return "\n".join(part.rstrip("\n") for part in parts) + "\n"

    def _see_also(self) -> Iterator[str]:
        others = ["-".join((*self.words, name)) for name, _ in self.below]
        if len(self.words) > 1:
            others.insert(0, "-".join(self.words[:-1]))
        if others:
            yield ".SH SEE ALSO\n" + ",\n".join(f".BR {_escaped(name)} (1)" for name in others)


def _pages_of(command: click.Command, words: Sequence[str], parent: click.Context | None) -> Iterator[Page]:
    ctx = click.Context(command, parent=parent, info_name=words[-1])
    below = {}
    if isinstance(command, click.Group):
        loaded = {name: command.get_command(ctx, name) for name in command.list_commands(ctx)}
        below = {name: one for name, one in loaded.items() if one is not None and not one.hidden}
    short = tuple((name, one.get_short_help_str(limit=1000)) for name, one in below.items())
    yield Page(tuple(words), command, ctx, short)
    for name, one in below.items():
        yield from _pages_of(one, [*words, name], ctx)


def _options(command: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    options = (parameter for parameter in command.get_params(ctx) if isinstance(parameter, click.Option))
    return [record for option in options if (record := option.get_help_record(ctx)) is not None]


def _terms(title: str, records: Sequence[tuple[str, str]]) -> Iterator[str]:
    if records:
        rows = (f".TP\n.B {_escaped(term)}\n{_escaped(text)}" for term, text in records)
        yield f".SH {title}\n" + "\n".join(rows)


def _rest(epilog: str) -> Iterator[str]:
    """The end of a help text; the examples are a section of their own."""
    before, _, after = epilog.partition("Examples:\n")
    if before := before.replace("\b", "").strip():
        yield ".SH NOTES\n" + _paragraphs(before)
    if after:
        yield ".SH EXAMPLES\n" + _verbatim(after)


def _paragraphs(text: str) -> str:
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return "\n.PP\n".join(
        _verbatim(part.removeprefix(VERBATIM)) if part.startswith(VERBATIM) else _escaped(part) for part in parts
    )


def _verbatim(text: str) -> str:
    return f".nf\n{_escaped(text.rstrip())}\n.fi"


def _escaped(text: str) -> str:
    """Text without meaning for roff."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", plain, flags=re.MULTILINE)
