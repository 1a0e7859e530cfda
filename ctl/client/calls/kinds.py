"""The calls of the client that are about kinds."""

from __future__ import annotations

from ctl.client.answers import Document
from ctl.client.calls.base import Calls
from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind, built_in, by_word
from ctl.client.nouns import DEFINED, noun_of
from ctl.client.words import did_you_mean

#: A kind, or its noun, name or number.
KindLike = Kind | str | int


class KindCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    _kinds: tuple[Kind, ...] | None = None  #: what the admin answered last

    def kinds(self) -> tuple[Kind, ...]:
        """Every kind the admin has, declared ones too."""
        return tuple(Kind.from_document(entry) for entry in self.kinds_document()["kinds"])

    def kinds_document(self) -> Document:
        """The JSON answer behind `kinds`."""
        return self._read("kinds", holding="kinds")

    def kind(self, word: KindLike) -> Kind:
        """The kind meant by a noun, name or number; the admin is asked only for what is not built in."""
        if isinstance(word, Kind):
            return word
        kind = by_word(built_in(), str(word))
        if kind is None:
            self._kinds = self._kinds or self.kinds()
            kind = by_word(self._kinds, str(word))
        if kind is None:
            nouns = [kind.noun for kind in self._kinds or ()]
            listed = " `rainbowctl get kind` lists them."
            raise InvalidInput(f"There is no kind {str(word)!r}.{did_you_mean(str(word), nouns) or listed}")
        return kind

    def noun(self, name: str) -> str:
        """The word for rows of a kind, by the name answers give it: PROJECT is `project`, POOL is `pool`."""
        built = next((kind.noun for kind in built_in() if kind.name == name), None)
        noun = built or noun_of(name)
        if built is not None or noun in DEFINED:
            return noun
        self._kinds = self._kinds or self.kinds()
        # A kind that is no longer declared still has a history.
        return next((kind.noun for kind in self._kinds if kind.name == name), noun)
