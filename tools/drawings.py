"""Makes the drawings of docs/explanation/drawings, an SVG of each .dot file: `make drawings`.

Needs graphviz, which neither the demo nor the tests do: each SVG says which text it was made of,
and a test holds the two together.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

from .devroot import PROJECT

FOLDER = PROJECT / "docs" / "explanation" / "drawings"


def sources() -> list[Path]:
    return sorted(FOLDER.glob("*.dot"))


def mark(source: Path) -> str:
    """Return the comment that an SVG of this text begins with."""
    return f"<!-- {source.name} {hashlib.sha256(source.read_bytes()).hexdigest()[:16]} -->\n"


def draw(source: Path) -> None:
    words = ["dot", "-Tsvg", str(source)]
    made = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    plain = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->", "", made, flags=re.DOTALL).strip()
    source.with_suffix(".svg").write_text(f"{mark(source)}{plain}\n")


def main() -> int:
    try:
        for source in sources():
            draw(source)
    except FileNotFoundError:
        print("drawings are made by graphviz: apt-get install graphviz", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
