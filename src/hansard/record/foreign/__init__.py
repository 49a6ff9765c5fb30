"""Ledgers of another engine, brought in as they were found."""

from hansard.record.foreign.importing import ForeignReport, check_foreign, examine, import_foreign, is_foreign

__all__ = ["ForeignReport", "check_foreign", "examine", "import_foreign", "is_foreign"]
