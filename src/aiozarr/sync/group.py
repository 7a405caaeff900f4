"""The blocking group: each method runs that of the asynchronous group and waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar, overload

from aiozarr.errors import ChildNotFoundError, InvalidKeyError
from aiozarr.hierarchy.array import Array as AsyncArray
from aiozarr.hierarchy.group import Group as AsyncGroup
from aiozarr.hierarchy.internal import ListedNode, NodeError, child_of, current_child, listed_levels
from aiozarr.sync.array import Array, Node
from aiozarr.sync.wait import Forwarded, blocking_method, data_in_this_thread, iterate, unchanged

AnyNode: TypeAlias = "Array | Group"
D = TypeVar("D")


class Group(Node[AsyncGroup]):
    """A group in a store; see `aiozarr.Group`. `group["a/b"]` opens, `"a/b" in group` tests, `del group["a"]` deletes.

    A group can be read like a mapping: iterating yields the names of the children, and `keys`, `values`, `items`, `get`
    and `len` work as in a dict. All of these except `get` list the store. A missing child is a `NodeNotFoundError` that
    is also a `KeyError`.
    """

    metadata = Forwarded(AsyncGroup, lambda group: group.metadata)

    def __getitem__(self, name: str) -> AnyNode:
        """Open the node `name`, such as `"a"` or `"a/b"`; errors are the same as for `aiozarr.Group.open`."""
        node = current_child(self._async, name)
        return self.open(name) if node is None else wrap_node(node)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self.contains(name)
        except InvalidKeyError:
            return False

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the children. A child whose document cannot be read is included."""
        return (found.name for found in self._listed(0))

    def __len__(self) -> int:
        """Return the number of children."""
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        # A handle is true without I/O, even if the group is empty.
        return True

    # Hidden from type checkers, for which it would make the assignment valid.
    if not TYPE_CHECKING:

        def __setitem__(self, name: object, values: object) -> NoReturn:
            raise TypeError(f"{name!r} cannot be assigned; use group.create_array({name!r}, data=values)")

    def __delitem__(self, name: str) -> None:
        """Delete the node `name` and everything below it; errors are the same as for `aiozarr.Group.delete`."""
        self.delete(name)

    def keys(self) -> list[str]:
        """Return the names of the children."""
        return list(self)

    def values(self) -> list[AnyNode]:
        """Return the children."""
        return [node for _, node in self.members()]

    def items(self) -> list[tuple[str, AnyNode]]:
        """Return the children with their names."""
        return list(self.members())

    @overload
    def get(self, name: str) -> AnyNode | None: ...
    @overload
    def get(self, name: str, default: D) -> AnyNode | D: ...
    def get(self, name: str, default: object = None) -> object:
        """Open the node `name`, or return `default` if there is none."""
        try:
            return self.open(name)
        except ChildNotFoundError:
            return default

    def members(self, max_depth: int | None = 0) -> Iterator[tuple[str, AnyNode]]:
        """Iterate over the nodes below; arguments and errors are the same as for `aiozarr.Group.members`."""
        unreadable: list[NodeError] = []
        for found in self._listed(max_depth):
            node = child_of(self._async, found)
            if isinstance(node, Exception):
                unreadable.append(node)
            else:
                yield found.name, wrap_node(node)
        if unreadable:
            raise unreadable[0]

    def _listed(self, max_depth: int | None) -> Iterator[ListedNode]:
        # Batch by batch, because each step of an iteration waits for the I/O thread.
        with closing(iterate(listed_levels(self._async, max_depth), unchanged)) as batches:
            yield from chain.from_iterable(batches)

    def arrays(self, max_depth: int | None = 0) -> Iterator[tuple[str, Array]]:
        """Iterate over the arrays below, as `members` does."""
        return ((name, node) for name, node in self.members(max_depth) if isinstance(node, Array))

    def groups(self, max_depth: int | None = 0) -> Iterator[tuple[str, Group]]:
        """Iterate over the groups below, as `members` does."""
        return ((name, node) for name, node in self.members(max_depth) if isinstance(node, Group))

    # Lambdas, because these names are not defined yet while the class body runs.
    open = blocking_method(AsyncGroup.open, lambda node: wrap_node(node))  # noqa: PLW0108
    create_group = blocking_method(AsyncGroup.create_group, lambda node: Group(node))  # noqa: PLW0108
    create_array = data_in_this_thread(blocking_method(AsyncGroup.create_array, Array))
    tree = blocking_method(AsyncGroup.tree, unchanged)
    contains = blocking_method(AsyncGroup.contains, unchanged)
    delete = blocking_method(AsyncGroup.delete, unchanged)
    move = blocking_method(AsyncGroup.move, unchanged)
    info = blocking_method(AsyncGroup.info, unchanged)
    require_array = blocking_method(AsyncGroup.require_array, Array)
    require_group = blocking_method(AsyncGroup.require_group, lambda node: Group(node))  # noqa: PLW0108
    create_hierarchy = blocking_method(
        AsyncGroup.create_hierarchy, lambda nodes: {name: wrap_node(node) for name, node in nodes.items()}
    )

    def __repr__(self) -> str:
        return repr(self._async).replace("<aiozarr.Group", "<aiozarr.sync.Group", 1)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        return self._async._repr_html_().replace("aiozarr.Group", "aiozarr.sync.Group", 1)


Mapping.register(Group)  # pyright: ignore[reportAttributeAccessIssue]  # its stubs do not know abstract base classes


def wrap_node(node: AsyncArray | AsyncGroup) -> AnyNode:
    """Return the blocking handle of an asynchronous one."""
    return Array(node) if isinstance(node, AsyncArray) else Group(node)
