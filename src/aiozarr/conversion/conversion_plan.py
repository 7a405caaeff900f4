"""The plan of a conversion: its stages as a table, and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aiozarr.common.formatting import format_count, preformatted, printable
from aiozarr.conversion.conversion_run import ConversionRun
from aiozarr.conversion.conversion_task import ConversionStage, ConversionWork
from aiozarr.engine import Engine, run

MAX_SHOWN_STAGES = 40
MIB = 1 << 20


@dataclass(frozen=True)
class ConversionPlan(ConversionWork):
    """The stages of a conversion; `print` shows them as a table.

    Attributes:
        source: URL of the source.
        destination: URL of the destination.
        arrays: number of arrays.
        groups: number of groups.
        stages: the passes, in the order in which they run.
        max_memory: the most bytes that one process holds in memory.
        notes: remarks, by the path of the array they are about.
    """

    async def prepare(self, *, overwrite: bool = False) -> None:
        """Prepare the destination for a scheduler that runs the tasks itself.

        Then run the tasks stage by stage, anywhere and in any order within a stage, and call `finish`. A task may be
        repeated.

        Args:
            overwrite: first erase everything stored at the destination.

        Raises:
            NodeExistsError: something is stored at the destination.
            CopyError: an interrupted conversion is stored there.
            StoreError: the store cannot write, or a request has failed.
        """

        async def work(engine: Engine) -> None:
            await ConversionRun(engine, self).prepare(overwrite=overwrite, resume=False)

        await run(work)

    async def finish(self) -> None:
        """Store the documents of the result after its last task, and erase journal and intermediate arrays.

        Consolidated metadata is written too, if the source has them. The call may be repeated after an error.

        Raises:
            CopyError: some tasks have not run (the message says how many), or the conversion was not prepared or is
                already finished.
            StoreError: a request has failed.
        """

        async def work(engine: Engine) -> None:
            execution = ConversionRun(engine, self)
            await execution.check_all_done()
            await execution.finish()

        await run(work)

    def __str__(self) -> str:
        tasks = format_count(sum([stage.tasks for stage in self.stages]), "task")
        counts = [
            f"{format_count(self.arrays, 'array')}, {format_count(self.groups, 'group')}, {tasks}",
            f"reads {_mib(self.bytes_read)}, writes {_mib(self.nbytes)}",
            f"at most {self.requests:,} requests and {_mib(self.max_memory)} in memory",
        ]
        head = [f"{self.source} -> {self.destination}", "; ".join(counts)]
        stages = self.stages[:MAX_SHOWN_STAGES]
        lines = [[*_COLUMNS], *[[cell(stage) for cell in _COLUMNS.values()] for stage in stages]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join([f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)]) for line in lines]
        if len(self.stages) > MAX_SHOWN_STAGES:
            table.append(f"and {len(self.stages) - MAX_SHOWN_STAGES:,} more")
        notes = [f"{path or 'note'}: {note}" for path, note in self.notes.items()]
        return "\n".join([printable(line.rstrip()) for line in [*head, *(table if self.stages else []), *notes]])

    def _repr_html_(self) -> str:
        return preformatted(str(self))


# --- helpers -----------------------------------------------------------------------------------------------------

_COLUMNS: Mapping[str, Callable[[ConversionStage], str]] = {
    "array": lambda stage: stage.array or ".",
    "stage": lambda stage: f"{stage.number + 1}/{stage.stages}",
    "shape": lambda stage: _shape(stage.shape),
    "objects": lambda stage: _shape(stage.objects),
    "region": lambda stage: _shape(stage.region),
    "tasks": lambda stage: f"{stage.tasks:,}",
    "reads": lambda stage: _mib(stage.bytes_read),
    "writes": lambda stage: _mib(stage.nbytes),
    "requests": lambda stage: f"{stage.requests:,}",
    "read": lambda stage: f"{stage.amplification:.2f}×",
    "task memory": lambda stage: _mib(stage.memory),
}


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "()"


def _mib(count: int) -> str:
    return f"{count / MIB:,.1f} MiB" if count >= MIB else f"{count:,} B"
