"""A page, or a Markdown text, that shows what runs came to.

`read_source` reads a run, `Report.of` puts several side by side, `page` and `markdown` write them down. Both derive
from the files of the runs alone and contain no time of their own: equal files give equal bytes.
"""

from trace_bench.report.content import Report, Source, read_source
from trace_bench.report.markdown import BEGINNING, markdown
from trace_bench.report.page import MARK, page

__all__ = ["BEGINNING", "MARK", "Report", "Source", "markdown", "page", "read_source"]
