"""Mentions: texts that name objects of other namespaces, for callers who see some namespaces only."""

from __future__ import annotations

import json

import pytest

from store.mentions import mention, plain, private, revealed


def shown(text: str, *namespaces: str) -> str:
    return revealed(text.encode(), lambda one: one in namespaces).decode()


EVERYWHERE = ("", "shop", "bank")


def test_objects_of_ones_own_namespace_are_plain_text() -> None:
    assert mention("taskgroup", ["shop/a-0", "shop/a-1"], within="shop") == "shop/a-0, shop/a-1"


@pytest.mark.parametrize(
    ("namespaces", "expected"),
    [
        (EVERYWHERE, "ended: shop/a-0, bank/b-0, bank/b-1"),
        (("shop",), "ended: shop/a-0 and 2 taskgroups of other namespaces"),
        (("bank",), "ended: bank/b-0, bank/b-1 and a taskgroup of another namespace"),
        (("mall",), "ended: 3 taskgroups of other namespaces"),
    ],
)
def test_a_caller_gets_the_names_that_it_may_see_and_counts_for_the_others(
    namespaces: tuple[str, ...], expected: str
) -> None:
    text = f"ended: {mention('taskgroup', ['shop/a-0', 'bank/b-0', 'bank/b-1'], within='shop')}"
    assert shown(text, *namespaces) == expected
    assert plain(text) == "ended: shop/a-0, bank/b-0, bank/b-1"


def test_a_text_that_was_cut_off_shows_no_part_of_a_name() -> None:
    whole = f"evicted for {mention('application', ['bank/vault'], within='shop')}; more"
    start = whole.index("bank")
    for end in range(start, start + len("bank/vault") + 1):
        cut = shown(f'{{"message": "{whole[:end]}…"}}', "shop", "ba", "bank")
        assert cut == '{"message": "evicted for applications of other namespaces"}'


def test_private_parts_are_for_callers_of_all_namespaces() -> None:
    text = f"queue batch is full{private('; used: 3')}, {mention('application', ['bank/a'], within='shop')}"
    assert shown(text, *EVERYWHERE) == "queue batch is full; used: 3, bank/a"
    assert shown(text, "bank") == "queue batch is full, bank/a"
    assert private("") == ""
    quoted = ': the application bank/a says "no", \\ or\n less'
    awkward = json.dumps("stays" + private(quoted), ensure_ascii=False)
    assert shown(awkward, "shop") == '"stays"'
    assert "bank/a says no" in shown(awkward, *EVERYWHERE)


def test_other_answers_stay_as_they_are() -> None:
    content = "no marks; private characters of fonts: \ue0a0 \ue0b0".encode()
    assert revealed(content, lambda _: False) is content
    output = "characters of marks in the output of a program: \ue000 \ue000x\ue002a/b\ue001".encode()
    assert revealed(output, lambda _: False) == output
