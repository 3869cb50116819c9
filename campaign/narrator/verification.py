"""Every claim of a text against the findings: number, unit, quantity, direction; what does not parse is refused."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from campaign.analysis.synthesis import Synthesis
from campaign.narrator.book import Book, write_book
from campaign.narrator.claims import Context, Refused, check_number, check_order
from campaign.narrator.tokens import Token, Unreadable, clauses, mask_claims, sentences

#: An executive summary is no longer.
MOST_SENTENCES = 5
MOST_CHARACTERS = 1500


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a text may stand."""

    is_true: bool
    """Every sentence parsed, and every claim in it is one of the findings."""
    reasons: tuple[str, ...] = ()
    """Why not, one a sentence that failed."""


def verify(text: str, synthesis: Synthesis) -> Verification:
    """Read `text` sentence by sentence; one claim that is not a finding refuses all of it.

    A sentence of the synthesis, repeated word by word, is a finding.
    """
    if not text.strip():
        return Verification(is_true=False, reasons=("the text is empty",))
    if len(text) > MOST_CHARACTERS:
        return Verification(is_true=False, reasons=(f"longer than {MOST_CHARACTERS} characters",))
    book = write_book(synthesis)
    reasons = []
    own = [sentence for sentence in synthesis.sentences if sentence in text]
    for sentence in own:
        text = text.replace(sentence, " ", 1)
    masked, claims = mask_claims(text, book)
    try:
        parts = sentences(masked)
    except Unreadable as error:
        return Verification(is_true=False, reasons=(str(error),))
    if len(parts) + len(own) > MOST_SENTENCES:
        reasons.append(f"{len(parts) + len(own)} sentences; {MOST_SENTENCES} at most")
    for part in parts:
        try:
            _check_sentence(clauses(part, claims, book), book)
        except (Unreadable, Refused) as error:
            reasons.append(f"“{part}”: {error}")
    return Verification(is_true=not reasons, reasons=tuple(reasons))


def _check_sentence(parts: Sequence[Sequence[Token]], book: Book) -> None:
    count, carried, streams = 0, "", ""
    is_hypothetical = False
    for tokens in parts:
        streams = next((token.value for token in tokens if token.kind == "streams"), streams)
        clause = Clause(tokens, book, carried, streams=streams, is_hypothetical=is_hypothetical)
        count += clause.check()
        carried, is_hypothetical = clause.subject or carried, clause.is_hypothetical
    if not count:
        raise Refused("it claims nothing that could be checked")


class Clause:
    """One clause: its subjects, and what is said of them."""

    def __init__(
        self, tokens: Sequence[Token], book: Book, carried: str, *, streams: str, is_hypothetical: bool
    ) -> None:
        self._book = book
        self._streams = streams
        named = [token for token in tokens if token.kind == "subject"]
        supposed = [t for t in named if t.value.startswith(("free.", "direction."))]
        self.is_hypothetical = is_hypothetical or bool(supposed)
        # What a step would take belongs to the supposition, not to the measured step.
        self._tokens = [t for t in tokens if not (self.is_hypothetical and t.kind == "subject" and t.value == "step")]
        self._tokens = [self._resolved(token) for token in self._tokens]
        self._subjects = [token.value for token in self._tokens if token.kind == "subject"]
        self._carried = carried
        self.subject = self._subjects[0] if self._subjects else ""
        self._kinds = {token.kind for token in self._tokens}

    def _resolved(self, token: Token) -> Token:
        """A macro quantity with the concurrency that stands in its clause."""
        if token.kind != "subject" or token.value not in ("tpot", "ttft", "throughput"):
            return token
        known = self._book.streams(token.value)
        asked = [int(t.value) for t in self._tokens if t.kind == "streams"]
        asked = asked or ([int(self._streams)] if self._streams else [])
        if len(asked) > 1 or (not asked and len(known) != 1):
            raise Refused(f"at how many streams is {token.text}? Measured: {', '.join(map(str, known)) or 'none'}")
        return msgspec.structs.replace(token, value=f"{token.value}.{asked[0] if asked else known[0]}")

    def check(self) -> int:
        """How many claims were found true; raises `Refused` for the first that is not."""
        if "streams" in self._kinds and not any("." in subject for subject in self._subjects):
            raise Refused("a number of streams without time per token, time to first token or throughput")
        self._check_mood()
        count = self._check_words() + self._check_laws()
        for number, token in enumerate(self._tokens):
            if token.kind == "compare":
                count += self._check_comparison(number)
            elif token.kind == "number" and "laws" not in self._subjects and not self._is_compared(number):
                check_number(token, self._owner(number), self._book, self._context())
                count += 1
            elif token.kind == "part" and not self._is_compared(number):
                raise Refused(f"{token.text!r} says too little; give the number")
        if not count and self._subjects and not self.is_hypothetical:
            raise Refused(f"nothing is said of {self._subjects[0]}")
        return count

    def _check_mood(self) -> None:
        """A supposition stays one: no measured number in it, and no `would` outside of it."""
        if "would" in self._kinds and not self.is_hypothetical:
            raise Refused("`would` without a supposition")
        if self.is_hypothetical and self._kinds & {"bounds", "largest", "second", "no_claim"}:
            raise Refused("what bounds decode after a change was not measured")
        if "since" in self._kinds and "change" not in self._kinds:
            raise Refused("what changed since the last revision?")
        named = {s for s in self._subjects if s != "step"}
        if self._kinds & {"bounds", "largest"} and len(named) > 1 and not self._kinds & {"second", "compare"}:
            raise Refused(f"which of {', '.join(sorted(named))}?")

    def _context(self) -> Context:
        change = next((t.value for t in self._tokens if t.kind == "change"), "")
        return Context(
            subjects=tuple(self._subjects) or (self._carried,),
            change=change,
            is_faster="faster" in self._kinds,
            is_slower="slower" in self._kinds,
        )

    def _is_compared(self, number: int) -> bool:
        return number > 0 and self._tokens[number - 1].kind == "compare"

    def _owner(self, number: int) -> str:
        """The subject of a number; raises `Refused` where it could be another one."""
        owner = self._subject_of(number)
        if not owner:
            raise Refused(f"which quantity is {self._tokens[number].text!r}?")
        if self.is_hypothetical and not owner.startswith(("free.", "direction.")):
            raise Refused(f"{owner} after a change was not measured")
        return owner

    def _subject_of(self, number: int) -> str:
        """Right behind it (`21.7 ms step`), else the nearest before, else the one carried over, else the only one."""
        tokens = self._tokens
        after = tokens[number + 1] if number + 1 < len(tokens) else None
        written = tokens[number].number
        unit = written.unit if written is not None else ""
        if after is not None and after.kind == "subject" and (unit == "1" or after.value == "step"):
            return "calls" if unit == "1" and after.value == "allreduce" else after.value
        before = [t for t in tokens[:number] if t.kind in ("subject", "number", "compare")]
        before = [t for t in before if not (t.value == "step" and unit == "%")]
        if [t.kind for t in before[-2:]] == ["subject", "subject"] and before[-2].value != "step":
            raise Refused(f"is {tokens[number].text!r} {before[-2].text} or {before[-1].text}?")
        named = [t.value for t in before if t.kind == "subject"]
        if named:
            return named[-1]
        if self._carried and set(self._subjects) <= {"step"}:
            return self._carried
        if "belief" in self._kinds:
            return self._belief()
        if len(self._subjects) > 1:
            return ""
        return self._subjects[0] if self._subjects else self._carried

    def _belief(self) -> str:
        """The belief that the clause names; raises `Refused` where it is not clear which."""
        claims = [t.value for t in self._tokens if t.kind == "belief" and t.value]
        known = [claim for claim, _ in self._book.verdicts]
        if not claims and len(known) == 1:
            claims = known
        if len(set(claims)) != 1:
            raise Refused("which belief? Quote its claim")
        return f"belief.{claims[0]}"

    def _check_comparison(self, number: int) -> int:
        operator, after = self._tokens[number].value, self._tokens[number + 1 : number + 2]
        if not after:
            raise Refused(f"{self._tokens[number].text!r} compares with nothing")
        if after[0].kind in ("number", "part"):
            bound = after[0]
            check_number(bound, self._owner(number + 1), self._book, self._context(), operator=operator)
            return 1
        before = [t.value for t in self._tokens[:number] if t.kind == "subject"] or [self._carried]
        if after[0].kind != "subject" or not before[-1]:
            raise Refused(f"{self._tokens[number].text!r} does not stand between two quantities")
        check_order(before[-1], operator, after[0].value, self._book)
        return 1

    def _check_words(self) -> int:
        book, count = self._book, 0
        first = self.subject or self._carried
        if "no_claim" in self._kinds:
            if book.bottleneck is not None:
                raise Refused(f"{book.bottleneck} is claimed to bound decode")
            count += 1
        elif "bounds" in self._kinds:
            if book.bottleneck is None or first != book.bottleneck:
                raise Refused(f"nothing says that {first or 'it'} bounds decode")
            count += 1
        if "largest" in self._kinds:
            if first != book.largest:
                raise Refused(f"{first or 'it'} is not the largest")
            count += 1
        if "second" in self._kinds:
            if (self._subjects[-1:] or [""])[0] != book.second:
                raise Refused("that is not the second largest")
            count += 1
        if "verdict" in self._kinds or "belief" in self._kinds:
            count += self._check_verdict()
        return count + self._check_direction()

    def _check_verdict(self) -> int:
        said = {t.value for t in self._tokens if t.kind == "verdict"}
        if "belief" not in self._kinds:
            if said == {"held"} and "laws" in self._subjects:
                return 0
            raise Refused("a verdict without a belief")
        claim = self._belief().removeprefix("belief.")
        verdict = dict(self._book.verdicts)[claim]
        if said != {verdict}:
            raise Refused(f"the verdict on “{claim}” is {verdict}")
        return 1

    def _check_direction(self) -> int:
        named = [s.removeprefix("direction.") for s in self._subjects if s.startswith("direction.")]
        order = [t.text.lower() for t in self._tokens if t.kind == "next"]
        if "bound_word" in self._kinds and not self.is_hypothetical:
            raise Refused("a bound of what?")
        for name in named:
            if name not in self._book.directions:
                raise Refused(f"{name} is not among the directions")
        if not order:
            return 0
        if not named:
            raise Refused(f"{order[0]!r} without a direction")
        if ("next" in order or "first" in order) and named[0] != self._book.directions[0]:
            raise Refused(f"the first direction is {self._book.directions[0]}")
        return 1

    def _check_laws(self) -> int:
        if "laws" not in self._subjects:
            if self._kinds & {"not_held", "hold"} and "belief" not in self._kinds:
                raise Refused("what holds or does not?")
            return 0
        numbers = [t.number.value for t in self._tokens if t.number is not None and t.number.unit == "1"]
        if len(numbers) != sum(t.kind == "number" for t in self._tokens):
            raise Refused("laws are counted, without a unit")
        book = self._book
        if "not_held" in self._kinds:
            is_true = numbers in ([book.broken, book.tested], [book.broken]) and book.broken > 0
        else:
            is_true = self._kinds >= {"hold"} or "verdict" in self._kinds
            is_true = is_true and (
                (numbers in ([book.tested], []) and book.broken == 0)
                or numbers == [book.tested - book.broken, book.tested]
            )
        if not is_true:
            raise Refused(f"{book.broken} of {book.tested} laws do not hold")
        return 1
