"""Outside packages for tests: real distributions, with metadata, in a folder on the path."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

PLUGIN_SOURCE = '''
    """A one-file sampler: the first frames."""

    from dataclasses import dataclass, field
    from typing import ClassVar

    from samplers.contract import FrameScorer, SamplerOptions
    from samplers.selection import finalise


    @dataclass(frozen=True)
    class FirstFrames:
        """The first candidates of the video."""

        id: ClassVar[str] = "{sampler_id}"
        version: ClassVar[str] = "1"
        fills_budget: ClassVar[bool] = True
        uses_query: ClassVar[bool] = False

        @dataclass(frozen=True, kw_only=True)
        class Options(SamplerOptions):
            skip: int = field(default=0, metadata={{"doc": "candidates to pass over"}})

        options: Options
        encoder: str
        scorer: FrameScorer | None = None

        def select(self, video, query, budget, scenes):
            first = self.options.skip
            return finalise(range(first, first + min(budget, 50)), video, budget)
'''


def write_module(folder: Path, name: str, source: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(dedent(source))


def write_plugin(folder: Path, module: str, sampler_id: str) -> str:
    """A working plug-in; returns its `module:Class`."""
    write_module(folder, module, PLUGIN_SOURCE.format(sampler_id=sampler_id))
    return f"{module}:FirstFrames"


def install(folder: Path, distribution: str, entry_points: dict[str, str]) -> None:
    """Metadata of an installed distribution that declares samplers: name -> `module:Class`."""
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[framegate.samplers]", *lines, ""]))
