"""A page that shows runs: one HTML file with everything in it. `write_page` is all that others need."""

from askew.report.page.write import write_page

__all__ = ["write_page"]
