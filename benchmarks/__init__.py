"""Measurements of aiozarr: compared with other readers, by stage, and by the size of reads."""
