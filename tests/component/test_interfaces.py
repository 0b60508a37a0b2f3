"""The API and `bcs` offer users what the files in tests/golden/interfaces list. After a change that users see,
`python -m tests.golden.interfaces` writes the files again."""

from __future__ import annotations

import pytest

from tests.golden.interfaces import FILES, FOLDER


@pytest.mark.parametrize("name", FILES)
def test_users_find_the_listed_interfaces(name: str) -> None:
    assert list(FILES[name]()) == (FOLDER / name).read_text().splitlines()
