# SPDX-License-Identifier: Apache-2.0
"""Writes the summary of make check-mutation: reports/check_mutation/summary.json and summary.svg.
"""

import json
from html import escape

INK, GREY, LINE = "#374151", "#6b7280", "#e5e7eb"
COLOURS = {"killed": "#059669", "survived": "#dc2626", "error": "#d97706"}
# Left edge (pixels), heading and maximum number of characters of each column.
COLUMNS = ((12, "check", 34), (250, "what it protects", 118), (930, "where", 40),
           (1185, "test that must fail without it", 68), (1590, "verdict", 10))  # fmt: skip
WIDTH, ROW, TOP = 1680, 18, 74


def _cut(text, letters):
    """Cuts a text to the width of its column."""
    return text if len(text) <= letters else text[: letters - 1] + "\u2026"


def picture(rows):
    """Draws the table of all checks as SVG text."""
    killed = sum(row["verdict"] == "killed" for row in rows)
    height = TOP + ROW * len(rows) + 14
    message = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="26" font-size="15" fill="{INK}">Protection checks of the RTL, each taken'
        f" out by itself: {killed} of {len(rows)} noticed by the test named</text>",
    ]
    for left, head, _ in COLUMNS:
        message.append(f'<text x="{left}" y="{TOP - 18}" fill="{GREY}">{head}</text>')
    for number, row in enumerate(rows):
        top = TOP + ROW * number
        message.append(f'<path d="M12 {top - 13}H{WIDTH - 12}" stroke="{LINE}"/>')
        cells = (row["id"], row["protects"], row["place"], row["test"], row["verdict"])
        for (left, head, letters), text in zip(COLUMNS, cells, strict=True):
            colour = COLOURS[row["verdict"]] if head == "verdict" else INK
            message.append(
                f'<text x="{left}" y="{top}" fill="{colour}"><title>{escape(text)}</title>'
                f"{escape(_cut(text, letters))}</text>"
            )
    return "\n".join([*message, "</svg>", ""])


def write(folder, rows, states):
    """Replaces the rows of the same checks in the summary, in the order of the list ({id: state});
    removes rows of another state. Returns the path of the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "summary.json"
    older = json.loads(file.read_text())["checks"] if file.exists() else []
    message = {row["id"]: row for row in [*older, *rows] if row["state"] == states.get(row["id"])}
    kept = [message[name] for name in states if name in message]
    counts = {verdict: sum(row["verdict"] == verdict for row in kept) for verdict in COLOURS}
    file.write_text(json.dumps({**counts, "checks": kept}, indent=1) + "\n")
    page = folder / "summary.svg"
    page.write_text(picture(kept))
    return page
