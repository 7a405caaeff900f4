"""How options are named: by us, by fsspec's file systems and by obstore; a table for each kind of store says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "words", "flag", "seconds", "count", "mapping", "any"]
"""What a value must be: a str without blanks, any str, a bool, a number or an int above 0, a mapping, anything."""

_TRUE = frozenset({"true", "1", "yes", "on", "requester"})
_FALSE = frozenset({"false", "0", "no", "off", ""})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind of store.

    Attributes:
        name: our name of it.
        kind: what its value must be.
        fsspec: other names that fsspec's file system has for it. The first is the one it is handed over by; where there
            is none, it is handed over by our name. A name with a dot is a member of a mapping: `client_kwargs.verify`.
        obstore: other names that obstore has for it, without the prefix of the cloud.
        ours_only: fsspec's file system has nothing like it.
    """

    name: str
    kind: Kind = "text"
    fsspec: tuple[str, ...] = ()
    obstore: tuple[str, ...] = ()
    ours_only: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The options of one kind of store.

    Attributes:
        store: how messages speak of it, as in "an S3 store".
        options: all options, in the order in which messages list them.
        prefixes: what names may begin with besides, as obstore's: `aws_`.
        nested: options of fsspec's file system that are mappings of further options.
        without_effect: options of fsspec's file system that steer what is steered otherwise here (caches of listings,
            block sizes, loops); they are taken, whatever their value, and change nothing.
    """

    store: str
    options: tuple[Option, ...]
    prefixes: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()

    def translate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given under our names. An option that is None counts as not given.

        Raises:
            TypeError: an unknown option, or a value of the wrong type; the message lists the known options.
            ValueError: one option is given twice with different values, or holds what cannot be sent.
        """
        by_name = self._by_name()
        found: dict[str, Any] = {}
        for name, value in self._flat(given):
            option = by_name.get(name) or by_name.get(self._plain(name))
            if option is None:
                if name in self.without_effect:
                    continue
                raise self._unknown(name)
            if value is None:
                continue
            value = _checked(option, value)
            if found.setdefault(option.name, value) != value:
                raise ValueError(f"the storage option {option.name!r} is given twice, with different values")
        return found

    def to_fsspec(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given` with our and obstore's names of options in the words of fsspec's file system.

        What is no option of ours is handed over as it is: the file system knows more than the table does.

        Raises:
            TypeError: a value of the wrong type, or an option that the file system has nothing for.
            ValueError: as `translate`.
        """
        theirs = {name for option in self.options for name in option.fsspec}
        by_name = self._by_name()
        native: dict[str, Any] = {}
        ours: dict[str, Any] = {}
        for name, value in given.items():
            option = (
                None if name in theirs or name in self.nested else by_name.get(name) or by_name.get(self._plain(name))
            )
            if option is None:
                native[name] = value
            elif option.ours_only:
                raise TypeError(f"fsspec's file system has nothing for the storage option {name!r}")
            elif value is not None:
                ours[option.fsspec[0] if option.fsspec else option.name] = _checked(option, value)
        for name, value in ours.items():
            _place(native, name, value)
        return native

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return tuple(option.name for option in self.options)

    def _by_name(self) -> dict[str, Option]:
        return {name: option for option in self.options for name in (option.name, *option.fsspec, *option.obstore)}

    def _plain(self, name: str) -> str:
        """Return a name of obstore's without prefix and capitals."""
        plain = name.lower()
        for prefix in self.prefixes:
            if plain.startswith(prefix):
                return plain.removeprefix(prefix)
        return plain

    def _flat(self, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in given.items():
            if name not in self.nested:
                yield name, value
            elif isinstance(value, Mapping):
                known = self._by_name()
                for inner, each in value.items():
                    yield (f"{name}.{inner}" if f"{name}.{inner}" in known else inner), each
            elif value is not None:
                raise TypeError(f"the storage option {name!r} is a mapping")

    def _unknown(self, name: str) -> TypeError:
        return TypeError(f"unknown storage option {name!r}; {self.store} knows {', '.join(self.names)}")


def _place(into: dict[str, Any], name: str, value: Any) -> None:
    outer, dot, inner = name.partition(".")
    if not dot:
        present = into.setdefault(outer, value)
    else:
        members = into[outer] = dict(into.get(outer) or {})
        present = members.setdefault(inner, value)
    if present != value:
        raise ValueError(f"the storage option {name!r} is given twice, with different values")


def _checked(option: Option, value: object) -> object:
    name = option.name
    match option.kind:
        case "flag":
            return _as_bool(name, value)
        case "seconds" | "count":
            wanted = int if option.kind == "count" else (int, float)
            if isinstance(value, bool) or not isinstance(value, wanted) or not value > 0:
                raise TypeError(f"the storage option {name!r} is a number above 0")
        case "mapping":
            if not isinstance(value, Mapping):
                raise TypeError(f"the storage option {name!r} is a mapping")
        case "text" | "words":
            if not isinstance(value, str):
                raise TypeError(f"the storage option {name!r} is a str, not {type(value).__name__}")
            if option.kind == "text" and any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value):
                raise ValueError(f"the storage option {name!r} holds blanks or control characters")
        case "any":
            pass
    return value


def _as_bool(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise TypeError(f"the storage option {name!r} is a bool")
