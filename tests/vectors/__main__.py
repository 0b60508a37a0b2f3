"""`python -m tests.vectors FILE`: one line per vector, then ``N passed, N failed``.

Exit code 0 if every vector passes, 1 if one fails, or if the file is malformed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.vectors.reading import Malformed, read
from tests.vectors.running import judge


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="ID", help="Run only this vector; may be given several times.")
def main(file: Path, only: tuple[str, ...]) -> None:
    """Run the vectors of FILE, which has the format policy-vectors/1."""
    try:
        vectors = read(file)
        unknown = sorted(set(only) - {vector.id for vector in vectors})
        if unknown:
            raise Malformed(f"{file}: no vector has the id {', '.join(unknown)}")
    except Malformed as malformed:
        click.echo(malformed, err=True)
        sys.exit(1)
    failed = passed = 0
    for verdict in judge([vector for vector in vectors if not only or vector.id in only]):
        click.echo(verdict.line)
        if verdict.differences:
            failed += 1
        else:
            passed += 1
    click.echo(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
