"""Sentences that know what they are made of: a code, and values each of a stated kind.

A message is a text for the owner of the data. What others may read of it follows from the kinds of
its values and from how many people stand behind each, never from its words. A text that is no
message came from outside, or from an error that says no more: nothing is known of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from numbers import Integral
from string import Formatter
from types import MappingProxyType
from typing import Any

from treeleak.core.private import dataclass
from treeleak.core.text import hundredths, listed, percent, plain

MOST_NAMED = 4
ELSEWHERE = "the internal edition says more"
"""For what a reader may not read."""


@dataclass(frozen=True)
class FigureWithSupport:
    """A figure, and how many people stand behind it."""

    figure: float
    people: int


@dataclass(frozen=True)
class Audience:
    """A reader who may not read all."""

    threshold: int
    """People who must stand behind a figure."""
    columns: Set[str] = frozenset()
    """Columns that may be named."""


ANYBODY = Audience(threshold=0)
"""Who reads scores rounded, and all else as it is."""


@dataclass(frozen=True)
class MessageTemplate:
    """A kind of message: the one place of its words."""

    code: str
    words: str
    """With a place for each value, as ``{name:kind}``; the kinds are those of ``_SAID``."""

    def __call__(self, **values: Any) -> Message:
        """Make a message of this kind."""
        return Message(self, values)

    @property
    def places(self) -> Mapping[str, str]:
        """Name and kind of each value."""
        return {name: spec or "" for _, name, spec, _ in Formatter().parse(self.words) if name}


class Message(str):
    """A sentence, its code and its values.

    Attributes
    ----------
    kind : MessageTemplate
    values : mapping of str to value
    instead : Message or None
        What a reader of the releasable edition sees, where the same with less in it is not enough.
    """

    kind: MessageTemplate
    values: Mapping[str, Any]
    instead: Message | None

    def __new__(
        cls, kind: MessageTemplate, values: Mapping[str, Any], instead: Message | None = None
    ) -> Message:
        """Write the sentence."""
        made = super().__new__(cls, _written(kind, values, None))
        made.kind, made.values, made.instead = kind, MappingProxyType(dict(values)), instead
        return made

    def __str__(self) -> str:
        """The message itself, so that it stays one in an error."""
        return self

    def __reduce__(self) -> Any:
        """Copy and store it with what it is made of."""
        return Message, (self.kind, dict(self.values), self.instead)

    @property
    def code(self) -> str:
        """What it says, whatever the words."""
        return self.kind.code

    def with_instead(self, other: Message) -> Message:
        """Let others read another message."""
        return Message(self.kind, self.values, other)

    def render_for(self, reader: Audience | None) -> str:
        """Write what a reader may read; all, if None."""
        if reader is None:
            return self
        if self.instead is not None:
            return self.instead.render_for(reader)
        return _written(self.kind, self.values, reader)

    def as_data(self, reader: Audience | None = None) -> dict[str, Any]:
        """Describe it: code and values, null where a reader may not read one."""
        if reader is not None and self.instead is not None:
            return self.instead.as_data(reader)
        places = self.kind.places
        values = {
            name: {"kind": kind, "value": _as_data(kind, self.values[name], reader)}
            for name, kind in places.items()
        }
        return {"code": self.code, "values": values}


FOREIGN = MessageTemplate("said_by_an_error", "{text:foreign}")
"""For texts of errors and files, which nobody but the owner reads."""


def static_message(text: str, code: str = "in_words") -> Message:
    """Mark a sentence of this package without any value in it: a literal, and nothing else."""
    return MessageTemplate(code, "{text}")(text=text)


def message_of(text: str | Exception) -> Message:
    """Take a message as it is, that of an error too; any other text is foreign."""
    content = text.args[0] if isinstance(text, Exception) and text.args else text
    return content if isinstance(content, Message) else FOREIGN(text=str(content))


def sentences(*texts: str) -> str:
    """Join sentences."""
    return " ".join(text for text in texts if text)


def _written(kind: MessageTemplate, values: Mapping[str, Any], reader: Audience | None) -> str:
    text = "".join(_pieces(kind, values, reader))
    # A number at the beginning of a sentence may have become a word.
    return text if reader is None else _FEWER.sub(r"\1Fewer than", text)


def _pieces(
    kind: MessageTemplate, values: Mapping[str, Any], reader: Audience | None
) -> Iterator[str]:
    for words, name, spec, _ in Formatter().parse(kind.words):
        yield words
        if name:
            yield _FORMATTERS[spec or ""](values[name], reader)


_FEWER = re.compile(r"(^|[.!?] )fewer than")

_ROUNDED = ("share1", "sd")
"""Kinds of which others read whole percents and hundredths: scores of the training rows."""


def _few(value: Any, reader: Audience | None) -> bool:
    if reader is None:
        return False
    people = value.people if isinstance(value, FigureWithSupport) else value
    return 0 < int(people) < reader.threshold


def _figure(
    write: Callable[[float], str], rounded: Callable[[float], str] | None = None
) -> Callable[[Any, Audience | None], str]:
    """Write a figure; where others read it in hundredths, ``rounded`` writes it for them."""

    def write_value(value: Any, reader: Audience | None) -> str:
        figure = value.figure if isinstance(value, FigureWithSupport) else value
        if reader is None:
            return write(figure)
        if isinstance(value, FigureWithSupport) and _few(value, reader):
            return f"a withheld figure (of fewer than {reader.threshold} people)"
        return write(figure) if rounded is None else rounded(hundredths(figure))

    return write_value


def _two_digits(figure: float) -> str:
    return f"{figure:.2f}"


def _people(value: Any, reader: Audience | None) -> str:
    if reader is not None and _few(value, reader):
        return f"fewer than {reader.threshold}"
    return f"{int(value):,}"


def _columns(
    quote: Callable[[str], str], most: int | None = MOST_NAMED
) -> Callable[[Any, Audience | None], str]:
    def write_value(value: Any, reader: Audience | None) -> str:
        may = [quote(plain(str(c))) for c in value if reader is None or c in reader.columns]
        more = len(value) - len(may)
        others = [f"{more:,} {'more' if may else 'column' + 's' * (more > 1)}"] if more else []
        return ", ".join([listed(may, most or len(may)), *others] if may else others)

    return write_value


def _column(value: Any, reader: Audience | None) -> str:
    visible = reader is None or value in reader.columns
    return f"column {plain(str(value))!r}" if visible else "a column"


def _for_owner(instead: str) -> Callable[[Any, Audience | None], str]:
    def write_value(value: Any, reader: Audience | None) -> str:
        if isinstance(value, Message):
            return value.render_for(reader)
        return instead if reader is not None else plain(str(value))

    return write_value


def _nested(value: Any, reader: Audience | None) -> str:
    if value == "":
        return ""
    if not isinstance(value, Message):
        raise TypeError(f"a message is needed, not {type(value).__name__}")
    return value.render_for(reader)


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]


_OWNERS = ("value", "place", "foreign")

_FORMATTERS: Mapping[str, Callable[[Any, Audience | None], str]] = {
    # A number of people, or of what stands for one each.
    "people": _people,
    # Any other number; with Of, one that rests on some people.
    "number": _figure(lambda x: f"{x:,}" if isinstance(x, Integral) else f"{x:.4g}"),
    "share": _figure(percent),
    "share1": _figure(lambda x: percent(x, 1), percent),
    "sd": _figure(_two_digits, _two_digits),
    "column": _column,
    "columns": _columns(str),
    "quoted": _columns(repr),
    "all_quoted": _columns(repr, None),
    "value": _for_owner("a value"),
    "place": _for_owner("one place"),
    "foreign": _for_owner(ELSEWHERE),
    # A message within another, or nothing; and the same within a sentence.
    "message": _nested,
    "within": lambda value, reader: _uncapital(_nested(value, reader)),
    # Words of this package or of a library: never of a file or of data.
    "": lambda value, _: plain(str(value)),
}


def _as_data(kind: str, value: Any, reader: Audience | None) -> Any:
    if isinstance(value, Message):
        return value.as_data(reader)
    if kind in ("columns", "quoted", "all_quoted"):
        return [str(c) for c in value if reader is None or c in reader.columns]
    if kind == "column":
        return str(value) if reader is None or value in reader.columns else None
    if kind in ("message", "within") or (kind in _OWNERS and reader is not None):
        return None
    if kind in _OWNERS or kind == "":
        return plain(str(value))
    if (kind == "people" or isinstance(value, FigureWithSupport)) and _few(value, reader):
        return None
    figure = value.figure if isinstance(value, FigureWithSupport) else value
    if reader is not None and kind in _ROUNDED:
        return hundredths(float(figure))
    return int(figure) if isinstance(figure, Integral) else float(figure)
