"""The page's look: readable on screen in light and dark, and printed."""

STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --shade: #f6f8fa;
  --page: #ffffff; --link: #0550ae; }
@media screen and (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --quiet: #9198a1; --line: #3d444d; --shade: #161b22; --page: #0d1117; --link: #79c0ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.5rem 4rem; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
h1, h2, h3, h4 { line-height: 1.25; margin: 2em 0 .6em; }
h1 { margin-top: 0; font-size: 1.9rem; }
h2 { font-size: 1.4rem; padding-bottom: .25em; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.15rem; }
a { color: var(--link); }
nav { margin: 1.5rem 0; padding: .8rem 1.2rem; background: var(--shade); border: 1px solid var(--line);
  border-radius: 6px; }
nav ul { margin: 0; padding: 0; list-style: none; columns: 16rem; }
.table { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: .92em; font-variant-numeric: tabular-nums; }
th, td { padding: .3em .7em; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { background: var(--shade); }
code, pre { font-family: ui-monospace, SFMono-Regular, "DejaVu Sans Mono", Consolas, monospace; font-size: .88em; }
code { background: var(--shade); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere; }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: 6px; padding: .8em 1em;
  overflow-x: auto; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
blockquote { margin: 1em 0; padding: 0 1em; border-left: 4px solid var(--line); color: var(--quiet); }
details { margin: .5em 0; color: var(--quiet); font-size: .88em; }
summary { cursor: pointer; }
img { max-width: 100%; height: auto; }
.left-out { color: var(--quiet); font-style: italic; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h1, h2, h3, h4 { break-after: avoid; }
  tr, img, pre, blockquote { break-inside: avoid; }
  thead { display: table-header-group; }
  .table, pre { overflow: visible; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  a { color: inherit; text-decoration: none; }
}
"""
