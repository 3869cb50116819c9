"""A text as typed tokens: subjects, numbers with units, comparisons, verdicts; nothing else is let through."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from campaign.narrator import lexicon
from campaign.narrator.book import Book


class Unreadable(Exception):
    """The text holds something that does not parse; kept inside this package."""


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A number as written."""

    value: float
    unit: str
    """Unit of the book; `1` = a bare count."""
    half_digit: float
    """Half a unit of its last digit, in the same unit: what rounding may have moved."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of a sentence that carries meaning."""

    kind: str
    """subject, number, compare, change, bounds, largest, second, next, no_claim, verdict, belief, faster, slower,
    not_held, hold, part, streams, bound_word, since,
    would."""
    text: str
    """As written."""
    value: str = ""
    """Subject, comparison, verdict or claim."""
    number: Number | None = None


_NUMBER = re.compile(r"([+−-]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\d])")
_CLAIM = re.compile(r"CLAIM\d+\b")
_RANGE = re.compile(r"\s*(?:to|–)\s*\d[\d,]*(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-zµμ][\w/-]*|%|×")
_CATEGORIES = "|".join(sorted((re.escape(p) for p in lexicon.SUBJECTS), key=len, reverse=True))
_FREE = re.compile(rf"(?:with ({_CATEGORIES}) free|without ({_CATEGORIES})|if ({_CATEGORIES}) (?:were|was) free)", re.I)
_FLOOR = re.compile(r"its (?:bandwidth )?floor", re.I)
#: What a share is of, no subject of its own unless a number stands with it.
_OF_STEP = re.compile(r"(?:of|in|per) (?:(?:the|a|each|every|one) )?(?:decode )?step\b(?! (?:of|takes|took) )", re.I)
_UPPER_BOUND = re.compile(r"(?:an |the )?(?:upper|lower) bound\b", re.I)
_SINCE = re.compile(r"since the (?:last|previous) revision\b", re.I)
_WOULD = re.compile(r"would\b", re.I)
#: What a share may be of, and what a time may be per.
_OF_OTHER = re.compile(
    r"\s+of\s+(?!(?:(?:the|a|each|every|one|all)\s+)?(?:decode\s+)?(?:step|decode|time|decoding)\b)", re.I
)
_PER_OTHER = re.compile(r"\s*(?:/|\bper\b|\b(?:a|an|each|every)\b)\s*(?!(?:decode\s+)?step\b)\w", re.I)
_STREAMS = re.compile(r"(?:at |with )?(\d+) streams?\b", re.I)
_BATCH = re.compile(r"batch (\d+)\b", re.I)
_ALLOWED = re.compile(r"[A-Za-z0-9µμ×%.,;:()/+−–\s\"“”'’-]*")
#: Where a sentence ends: a stop that no digit follows.
_STOP = re.compile(r"[.!?](?=\s|$)")
_CLAUSE = re.compile(r";|,(?!\d)|(?<!next):(?=\s)|\b(?:while|whereas|but|and)\b", re.I)


def mask_claims(text: str, book: Book) -> tuple[str, dict[str, str]]:
    """The text with each claim that is quoted word by word as one mark; mark → claim.

    A claim's own words are its author's, not the narrator's, and may hold any character.
    """
    claims = {}
    for number, (claim, _) in enumerate(sorted(book.verdicts, key=lambda pair: -len(pair[0]))):
        mark = f"CLAIM{number}"
        for quoted in (f"“{claim}”", f'"{claim}"'):
            if claim and quoted in text:
                text, claims[mark] = text.replace(quoted, f"{mark} "), claim
    return text, claims


def sentences(text: str) -> list[str]:
    """The sentences of a text; raises `Unreadable` for characters that no plain sentence has."""
    if not _ALLOWED.fullmatch(text):
        bad = sorted({character for character in text if not _ALLOWED.fullmatch(character)})
        raise Unreadable(f"characters outside plain prose: {' '.join(repr(c) for c in bad[:5])}")
    return [part.strip() for part in _STOP.split(text) if part.strip()]


def clauses(sentence: str, claims: dict[str, str], book: Book) -> list[list[Token]]:
    """The tokens of each clause; raises `Unreadable` naming the first word that is not understood."""
    return [tokens for part in _CLAUSE.split(sentence) if (tokens := _read(part.strip(), claims, book))]


def _read(part: str, claims: dict[str, str], book: Book) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(part):
        if part[position] in " \t\n()\"“”'’–,:-./":
            position += 1
            continue
        token, length = _next(part[position:], tokens, claims, book)
        if token is not None:
            tokens.append(token)
        position += length
    return tokens


def _next(rest: str, before: list[Token], claims: dict[str, str], book: Book) -> tuple[Token | None, int]:
    """The token that `rest` begins with (None for words without a claim), and how many characters it takes."""
    for pattern, make in _MAKERS:
        if match := pattern.match(rest):
            return make(match, before, book), match.end()
    if match := _CLAIM.match(rest):
        return Token(kind="belief", text=claims.get(match[0], ""), value=claims.get(match[0], "")), match.end()
    if match := _NUMBER.match(rest):
        return _number(rest, match)
    return _phrase(rest)


def _make_free(match: re.Match[str], _before: list[Token], _book: Book) -> Token:
    phrase = next(group for group in match.groups() if group)
    return Token(kind="subject", text=match[0], value=f"free.{lexicon.SUBJECTS[phrase.lower()]}")


def _make_floor(match: re.Match[str], before: list[Token], _book: Book) -> Token:
    owner = next((token.value for token in reversed(before) if token.kind == "subject"), "")
    return Token(kind="subject", text=match[0], value=f"floor.{owner}")


def _make_batch(match: re.Match[str], _before: list[Token], book: Book) -> None:
    if int(match[1]) != book.batch:
        raise Unreadable(f"{match[0]!r}: the profiled batch is {book.batch}")


def _make_streams(match: re.Match[str], _before: list[Token], _book: Book) -> Token:
    return Token(kind="streams", text=match[0], value=match[1])


def _make_bound(match: re.Match[str], _before: list[Token], _book: Book) -> Token:
    return Token(kind="bound_word", text=match[0])


def _make_since(match: re.Match[str], _before: list[Token], _book: Book) -> Token:
    return Token(kind="since", text=match[0])


def _make_would(match: re.Match[str], _before: list[Token], _book: Book) -> Token:
    return Token(kind="would", text=match[0])


def _make_nothing(_match: re.Match[str], _before: list[Token], _book: Book) -> None:
    return None


_MAKERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], list[Token], Book], Token | None]], ...] = (
    (_FREE, _make_free),
    (_FLOOR, _make_floor),
    (_OF_STEP, _make_nothing),
    (_UPPER_BOUND, _make_bound),
    (_SINCE, _make_since),
    (_WOULD, _make_would),
    (_BATCH, _make_batch),
    (_STREAMS, _make_streams),
)


def _number(rest: str, match: re.Match[str]) -> tuple[Token, int]:
    places = len(match[3]) - 1 if match[3] else 0
    value = float(match[2].replace(",", "") + (match[3] or "")) * (-1 if match[1] in ("-", "−") else 1)
    after = rest[match.end() :]
    unit, factor, length = _unit(after)
    if not length and (later := _RANGE.match(after)):
        unit, factor, _ = _unit(after[later.end() :])
    if unit == "%" and _OF_OTHER.match(after[length:]):
        raise Unreadable(f"{rest[: match.end() + length]!r} is a share of the step, not of something else")
    if unit != "1" and _PER_OTHER.match(after[length:]):
        raise Unreadable(f"{rest[: match.end() + length]!r} is per step, not per something else")
    if unit == "1" and after[:1].isalpha():
        raise Unreadable(f"{rest.split(maxsplit=1)[0]!r} is no number with a known unit")
    number = Number(value=value * factor, unit=unit, half_digit=0.5 * 10**-places * factor)
    end = match.end() + length
    return Token(kind="number", text=rest[:end], number=number), end


def _unit(after: str) -> tuple[str, float, int]:
    """(unit of the book, factor into it, characters read); a bare count where no unit follows."""
    spaces = len(after) - len(after.lstrip(" "))
    for written in sorted(lexicon.UNITS, key=len, reverse=True):
        end = spaces + len(written)
        following = after[end : end + 1]
        is_whole = not (written[-1].isalpha() and (following.isalnum() or following == "/"))
        if after[spaces:end].lower() == written and is_whole:
            return (*lexicon.UNITS[written], end)
    return "1", 1.0, 0


def _phrase(rest: str) -> tuple[Token | None, int]:
    for phrase, kind, value in _PHRASES:
        if rest[: len(phrase)].lower() == phrase and not rest[len(phrase) : len(phrase) + 1].isalnum():
            return Token(kind=kind, text=rest[: len(phrase)], value=value), len(phrase)
    match = _WORD.match(rest)
    if match is None:
        raise Unreadable(f"{rest[:12]!r} is not understood")
    if match[0].lower() not in lexicon.FILLERS:
        raise Unreadable(f"the word {match[0]!r} is not understood")
    return None, match.end()


def _phrases() -> list[tuple[str, str, str]]:
    made = [(phrase, "subject", subject) for phrase, subject in lexicon.SUBJECTS.items()]
    made += [(phrase, "compare", operator) for phrase, operator in lexicon.COMPARISONS.items()]
    made += [(phrase, "change", "+" if sign > 0 else "-") for phrase, sign in lexicon.CHANGES.items()]
    made += [(phrase, "verdict", verdict) for phrase, verdict in lexicon.VERDICTS.items()]
    made += [(phrase, "part", str(value)) for phrase, value in lexicon.PARTS.items()]
    for kind, phrases in (
        ("bounds", lexicon.BOUNDS), ("largest", lexicon.LARGEST), ("second", lexicon.SECOND), ("next", lexicon.NEXT),
        ("no_claim", lexicon.NO_CLAIM), ("belief", lexicon.BELIEFS), ("faster", lexicon.FASTER),
        ("slower", lexicon.SLOWER), ("not_held", lexicon.NOT_HELD), ("hold", lexicon.HELD),
    ):  # fmt: skip
        made += [(phrase, kind, "") for phrase in phrases]
    return sorted(made, key=lambda item: -len(item[0]))


_PHRASES = _phrases()
