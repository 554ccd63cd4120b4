"""The drawing of a pipeline as PNG: matplotlib draws the few shapes of our SVG."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

from ..io._optional import optional

COLOURS = {"chip": "#ddf4ff", "end": "#fff8c5", "edge": "#8c959f", "ink": "#1f2328"}
DPI = 160
CODES = {"M": (1, 1), "L": (2, 1), "C": (4, 3)}
"""The matplotlib code for a letter of a path, and the number of its points."""


def png(svg: str) -> bytes:
    """Convert the result of `pipeline.graph("svg")` to PNG.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    figures = optional("matplotlib.figure", "A PNG file", "draw")
    patches, paths = (optional(f"matplotlib.{name}", "A PNG file", "draw") for name in ("patches", "path"))
    root = ElementTree.fromstring(svg)  # trusted: our own SVG
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    figure = figures.Figure(figsize=(width / 72, height / 72), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(left, left + width), ylim=(top + height, top))
    axes.axis("off")
    for node in root.iter():
        kind, at = node.tag.rpartition("}")[2], node.attrib
        if kind == "rect":
            x, y, w, h = (float(at[name]) for name in ("x", "y", "width", "height"))
            face = COLOURS.get(at.get("class", ""), "white")
            edge = "none" if at.get("class") == "chip" else COLOURS["edge"]
            style = f"round,pad=0,rounding_size={float(at['rx'])}"
            axes.add_patch(patches.FancyBboxPatch((x, y), w, h, boxstyle=style, facecolor=face, edgecolor=edge))
        elif kind == "path":
            axes.add_patch(patches.PathPatch(_path(paths.Path, at["d"]), facecolor="none", edgecolor=COLOURS["edge"]))
        elif kind == "text":
            bold = {"fontsize": 13, "fontweight": "bold"} if at.get("class") == "title" else {"fontsize": 11}
            place = float(at["x"]), float(at["y"])
            axes.text(*place, node.text or "", family="monospace", color=COLOURS["ink"], parse_math=False, **bold)
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": "tensorclass"})
    return content.getvalue()


def _path(path: Any, text: str) -> Any:
    """A matplotlib path from the commands M, L and C with absolute points."""
    points, codes = [], []
    for letter, numbers in re.findall(r"([MLC])([^MLC]*)", text):
        flat = [float(number) for number in numbers.split()]
        points += list(zip(flat[::2], flat[1::2], strict=True))
        codes += [CODES[letter][0]] * CODES[letter][1]
    return path(points, codes)
