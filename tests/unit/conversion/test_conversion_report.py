from __future__ import annotations

from aiozarr import ConversionReport


def test_a_report_prints_its_counts_and_the_first_failures() -> None:
    failed = tuple((f"a {number}", ValueError("wrong")) for number in range(7))
    report = ConversionReport(arrays=2, groups=1, tasks=1000, skipped=3, failed=failed, notes={"": "note"})
    text = str(report)
    assert text.startswith("2 arrays, 1 group: 1,000 tasks, 3 done before, 0 B in 0.00 s")
    assert ".: note" in text
    assert "  a 4: wrong\n  and 2 more" in text
    assert "a 5" not in text
