"""Text from data made safe for HTML and SVG: the only way by which data comes into a page."""

from html import escape

from flowstone_cli.clean import clean


def text(data: str) -> str:
    """Data as text of an element: nothing in it is markup, nothing in it is invisible or turns the text around."""
    return escape(clean(data), quote=True)


def attribute(data: str) -> str:
    """Data as the value of an attribute, with its quotes."""
    return f'"{text(data)}"'
