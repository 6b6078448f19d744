"""Answers as text, HTML and JSON: one module per answer, one function per form.

    text.checkup_text(checkup, width=80, colour=True)    one screen of a terminal
    pages.checkup_page(checkup, pages)                   one self-contained HTML file
    documents.checkup_json(checkup)                      the contract ``slowtrain.checkup/1``

Reports lay out and format. They compute no figure that a reader could act on: each stands in the
:class:`~slowtrain.model.Checkup`, and a missing one reads as "not measured", never as fine. A name may come from
anybody's program. :func:`slowtrain.report.wording.printable_text` removes terminal controls from it, and the templates
escape it.
"""
