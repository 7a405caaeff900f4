"""The help of a command: its summary, examples, details, and its options in sections."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click

SECTIONS = {
    "Selection": {"select", "include", "exclude"},
    "Store": {
        *("endpoint_url", "no_sign_request", "profile", "region", "request_payer", "storage_option"),
        *("source_option", "destination_option"),
    },
    "Output": {"kind", "output", "human", "as_json", "quiet", "verbose"},
}
"""The options of each section by the names of their parameters. All others are in the section "Options"."""


class Command(click.Command):
    """A command whose help begins with examples.

    Args:
        examples: command lines, as a user types them.
    """

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summary, the examples and the remaining paragraphs."""
        summary, _, details = inspect.cleandoc(self.help or "").partition("\n\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(summary)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        if details:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(details)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *SECTIONS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[section_of(parameter)].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def section_of(option: click.Option) -> str:
    """Return the title of the section of an option."""
    return next((title for title, names in SECTIONS.items() if option.name in names), "Options")


def command(*examples: str) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command of a function; its help has the examples."""
    return click.command(cls=Command, examples=examples)
