"""The blocking group: the asynchronous one, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from aiozarr import hierarchy
from aiozarr.errors import InvalidKeyError
from aiozarr.metadata import GroupMetadata
from aiozarr.sync.array import Array
from aiozarr.sync.node import Node
from aiozarr.sync.wait import iterate, method, same

AnyNode: TypeAlias = "Array | Group"


class Group(Node[hierarchy.Group]):
    """A group in a store; see `aiozarr.Group`. `group["a/b"]` opens, `"a/b" in group` looks, iterating gives names."""

    @property
    def metadata(self) -> GroupMetadata:
        """What the group's metadata document says; not to be changed in place."""
        return self._async.metadata

    def __getitem__(self, name: str) -> AnyNode:
        """Open the node `name`, such as `"a"` or `"a/b"`; errors are those of `aiozarr.Group.open`."""
        return self.open(name)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self.contains(name)
        except InvalidKeyError:
            return False  # No node can be called so.

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the children."""
        return (name for name, _ in self.members())

    def members(self, max_depth: int | None = 0) -> Iterator[tuple[str, AnyNode]]:
        """Iterate over the nodes below; arguments and errors are those of `aiozarr.Group.members`."""
        return iterate(self._async.members(max_depth), lambda found: (found[0], wrap_node(found[1])))

    def arrays(self, max_depth: int | None = 0) -> Iterator[tuple[str, Array]]:
        """Iterate over the arrays below, as `members` does."""
        return iterate(self._async.arrays(max_depth), lambda found: (found[0], Array(found[1])))

    def groups(self, max_depth: int | None = 0) -> Iterator[tuple[str, Group]]:
        """Iterate over the groups below, as `members` does."""
        return iterate(self._async.groups(max_depth), lambda found: (found[0], Group(found[1])))

    # Lambdas, because the names are not there yet while the class is being made.
    open = method(hierarchy.Group.open, lambda node: wrap_node(node))  # noqa: PLW0108
    create_group = method(hierarchy.Group.create_group, lambda node: Group(node))  # noqa: PLW0108
    create_array = method(hierarchy.Group.create_array, Array)
    tree = method(hierarchy.Group.tree, same)
    contains = method(hierarchy.Group.contains, same)
    delete = method(hierarchy.Group.delete, same)
    move = method(hierarchy.Group.move, same)
    info = method(hierarchy.Group.info, same)
    require_array = method(hierarchy.Group.require_array, Array)
    require_group = method(hierarchy.Group.require_group, lambda node: Group(node))  # noqa: PLW0108
    create_hierarchy = method(
        hierarchy.Group.create_hierarchy, lambda nodes: {name: wrap_node(node) for name, node in nodes.items()}
    )

    def __repr__(self) -> str:
        return repr(self._async).replace("<aiozarr.Group", "<aiozarr.sync.Group", 1)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return self._async._repr_html_().replace("aiozarr.Group", "aiozarr.sync.Group", 1)


def wrap_node(node: hierarchy.Array | hierarchy.Group) -> AnyNode:
    """Return the blocking handle of an asynchronous one."""
    return Array(node) if isinstance(node, hierarchy.Array) else Group(node)
