"""The wording of texts that people read: documents, comments of `conf/`, help texts, messages and docstrings.

Each rule is a form that made texts hard to read. `FORMS` says what to write instead.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.sources import ROOMS, ROOT, sources

FORMS = {
    r"for ever": "permanently, without end",
    r"under way": "in progress",
    r"(is|are|was|were) told( of| by| that)?|tells? of|told of": "report, log, show",
    r"has the last word|have the last word|last word": "final answer",
    r"g(o|oes|oing) on|went on": "continue",
    r"(hold|holds|held|holding) (\w+ )?up": "delay, wait",
    r"stands? still": "is stuck",
    r"gives? way|gave way": "is superseded",
    r"nobody|somebody|whoever|whom": "the noun: no scheduler, an operator",
    r"whatever": "any, every",
    r"out of reach": "unreachable",
    r"br(eaks?|oke|oken) off": "interrupted, incomplete",
    r"troubles?": "problem",
    r"errands?|warden|hindrances?": "a term of the glossary",
    r"the more rarely": "less often",
    r"puts? in place": "install",
    r"[Ww]hat(?![ -]if)": "a noun",
    r"(is|are) (no|none) [a-z]+ of": "is not",
}
"""Forms that no text may have (regular expressions of whole words), each with the standard words for it."""
ANY_FORM = re.compile(rf"\b(?:{'|'.join(FORMS)})\b")
STARTS = re.compile(r"(What|Who|Whoever|That|It is|It has) ")
"""A sentence begins with its subject, a noun."""
WORDS = 48
"""The most words of a sentence; code in backticks counts as one."""
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
)
COMMENTED = ("conf/scheduler.toml", "conf/tokens.toml", "conf/haproxy.cfg.template", "conf/bcs-scheduler.service")
COMMENT = re.compile(r"(?:^|  ) *# (.+)$", re.MULTILINE)
QUESTIONS = re.compile(r"[^.?|]*\?")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each paragraph, list item and cell of a table, without code."""
    part: list[str] = []
    start, code = 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith("```"):
            code, bare = not code, ""
        ends = code or not bare or bare.startswith(("#", "|", "<!--")) or line.startswith("    ")
        if part and (ends or re.match(r"([*-]|\d+\.) ", bare)):
            yield start, " ".join(part)
            part = []
        if bare.startswith("|") and not code:
            yield from ((number, cell.strip()) for cell in bare.strip("|").split(" | "))
        elif not ends:
            start = start if part else number
            part.append(re.sub(r"^([*-]|\d+\.) ", "", bare))
        elif bare.startswith(("# ", "## ", "### ")):
            yield number, bare.lstrip("# ")


def sentences(block: str) -> list[str]:
    plain = re.sub(r"`[^`]*`", "X", block)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    plain = re.sub(r'"[^"]*"', "X", QUESTIONS.sub("", plain))
    return re.split(r"(?<=[.:!])[*)]*\s+(?=[A-Z\[*(])", plain)


def offences(sentence: str) -> Iterator[str]:
    for form, better in FORMS.items() if ANY_FORM.search(sentence) else ():
        if found := re.search(rf"\b(?:{form})\b", sentence):
            yield f"{found[0]!r} (better: {better})"
    if STARTS.match(sentence):
        yield f"begins with {sentence.split()[0]!r}"


def of_document(name: str) -> list[str]:
    found = []
    text = (ROOT / name).read_text(encoding="utf-8")
    for number, block in blocks(text):
        for sentence in sentences(block):
            wrong = list(offences(sentence))
            if len(sentence.split()) > WORDS:
                wrong.append(f"{len(sentence.split())} words")
            found += [f"{name}:{number}: {one}: {sentence[:90]}" for one in wrong]
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_plain(name: str) -> None:
    assert of_document(name) == []


def test_tests_that_documents_name_exist() -> None:
    """Decisions name the tests that prove them."""
    modules = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    found = {
        (name, module)
        for name in DOCUMENTS
        for module in re.findall(r"(?<!\w)test_\w+", (ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(found) > 100
    assert sorted((name, module) for name, module in found if module not in modules) == []


@pytest.mark.parametrize("name", COMMENTED)
def test_comments_of_settings_are_plain(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    texts = [line.strip().lstrip("# ") for line in lines if line.strip().startswith("#")]
    assert len(texts) > 3
    assert [(text, wrong) for text in texts for wrong in offences(text)] == []


def messages(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, text) of every string of three words or more that is no docstring."""
    nodes = tuple(nodes)
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in skipped:
            continue
        match node:
            case ast.Constant(value=str(text), lineno=line):
                pass
            case ast.JoinedStr(values=parts, lineno=line):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
            case _:
                continue
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and " " in text.strip():
            yield line, text


def test_messages_are_plain() -> None:
    """Errors, warnings, help texts, events and log lines of the program."""
    found = []
    read = list(sources(*ROOMS))
    assert len(read) > 600
    for source in read:
        for line, text in messages(source.nodes):
            wrong = [one for sentence in sentences(text) for one in offences(sentence)]
            found += [f"{source.name}:{line}: {one}" for one in wrong]
    assert found == []


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, text) of every docstring, those of attributes included."""
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                yield line, inspect.cleandoc(text)


def of_source(source: str, nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """(line, offence) of each docstring and comment of a text and the nodes of its syntax tree."""
    found = []
    for line, text in docstrings(nodes):
        for _, block in blocks(text):
            for sentence in sentences(block):
                found += [(line, one) for one in offences(sentence)]
                if len(sentence.split()) > WORDS:
                    found.append((line, f"{len(sentence.split())} words"))
    for comment in COMMENT.finditer(source):
        wrong = [one for sentence in sentences(comment[1]) for one in offences(sentence)]
        found += [(source.count("\n", 0, comment.start(1)) + 1, one) for one in wrong]
    return found


def test_docstrings_and_comments_are_plain() -> None:
    """Docstrings of structs of the API appear in its description."""
    read = list(sources(*ROOMS))
    assert len(read) > 700
    found = [f"{source.name}:{line}: {one}" for source in read for line, one in of_source(source.text, source.nodes)]
    assert found == []


def test_offences_of_docstrings_and_comments_are_found() -> None:
    long = " ".join(["word"] * (WORDS + 1))
    lines = (
        '"""What remains."""',
        "A = 1  # what is left",
        '"""Whoever leads."""',
        "def f():",
        f'    """{long}."""',
        "    # told of it",
    )
    source = "\n".join(lines)
    assert sorted({line for line, _ in of_source(source, ast.walk(ast.parse(source)))}) == [1, 2, 3, 5, 6]
    source = '"""The remaining records."""\nA = 1  # the rest\nB = "# what"\n'
    assert of_source(source, ast.walk(ast.parse(source))) == []


def test_offences_are_found() -> None:
    wrong = (
        "Mesos took what the store had",
        "What remains is deleted.",
        "It is refused.",
        "nobody leads",
        "moves under way",
    )
    assert [text for text in wrong if not any(offences(text))] == []
    right = ("The store refuses the write.", "`what` is a field", "No scheduler leads.")
    assert [text for text in right for sentence in sentences(text) if any(offences(sentence))] == []
