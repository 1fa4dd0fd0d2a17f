"""Text within XML, refused where XML cannot hold it."""

import re
from xml.sax.saxutils import escape, quoteattr

from mambamatcher.errors import InputError

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def xml_attribute(text: str) -> str:
    """Return a text as the value of an attribute, with its quotation marks."""
    return quoteattr(_checked(text))


def xml_text(text: str) -> str:
    """Return a text as the content of an element."""
    return escape(_checked(text), {"\r": "&#13;"})


def _checked(text: str) -> str:
    if found := _NOT_XML.search(text):
        raise InputError(f"{text!r:.60} has the character {found[0]!r}, which XML cannot hold")
    return text
