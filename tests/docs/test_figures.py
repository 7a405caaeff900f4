"""The figures of README, home and Performance are those of the file that `make bench` writes."""

from __future__ import annotations

import json
import re

from benchmarks.scenarios import scenarios
from scripts import make_figures


def test_the_pages_show_the_figures_of_the_file() -> None:
    figures = json.loads(make_figures.FIGURES.read_text("utf-8"))
    for page in make_figures.PAGES:
        text = page.read_text("utf-8")
        assert "<!-- figures: " in text
        assert make_figures.rendered(text, figures) == text, "run: .venv/bin/python -m scripts.make_figures"


def test_every_scenario_has_a_row() -> None:
    assert {*make_figures.READS, *make_figures.WRITES} == scenarios(512 << 20).keys()
    performance = make_figures.PAGES[-1].read_text("utf-8")
    rows = set(re.findall(r"^\| `([\w-]+)` ", performance, re.MULTILINE))
    assert scenarios(512 << 20).keys() <= rows
    tables = set(re.findall(r"<!-- figures: ([\w-]+) -->", performance))
    assert tables == make_figures.TABLES.keys() - {"headline"}
