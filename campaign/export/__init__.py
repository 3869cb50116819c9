"""One self-contained page of the document: nothing is fetched when it is read."""

from campaign.export.page import export_html, figure_links

__all__ = ["export_html", "figure_links"]
