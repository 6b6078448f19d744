"""A checkup, rendered: one file per form, one function each.

    text.render(checkup, width=80, colour=True)    what the terminal shows, one screen
    html.render(checkup, pages)                    one self-contained file
    json.render(checkup)                           the contract ``slowtrain.checkup/1``

Reports lay out and format; they compute no figure that a reader could act on. Whatever is
shown stands in the :class:`~slowtrain.model.Checkup`, and what it lacks reads as "not
measured", never as fine. Every name may come from somebody's program, and is cleaned of
terminal controls (:func:`slowtrain.report.wording.clean`) and escaped
(:func:`slowtrain.report.markup.el`) in one place each.
"""
