"""One self-contained page, also as a browser sees it."""

import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from campaign.export import export_html, figure_links
from campaign.figures import MARKERS, PALETTE, axes, legend_above, stacked_bar, svg_of
from campaign.render import block, code, table, text

SHARES = {"allreduce": 11.17, "gemm": 2.08, "attention": 1.31, "rms_norm": 1.12, "rope": 0.81, "other": 4.72}


def draw_lines(title: str = "Throughput") -> bytes:
    with axes(7, 3.6) as (figure, ax):
        for n in range(3):
            ax.plot([1, 4, 16, 64], [1, 3 + n, 9 + n, 12 - n], color=PALETTE[n], marker=MARKERS[n], label=f"TP {2**n}")
        ax.set_title(title)
        ax.set_xlabel("concurrent requests")
        legend_above(figure)
        return svg_of(figure, title)


def draw_step() -> bytes:
    return stacked_bar(tuple(SHARES.items()), unit="ms", title="Where a decode step goes")


def document(port: int = 1) -> bytes:
    parts = [
        "---\nsecret: front matter\n---\n# Kimi on eight GPUs\n\n**Engine:** x  \n**Model:** <b>bold</b>\n",
        "## Summary\n\nAll-reduce takes 51.5 % of a step.\n",
        "<!-- campaign:begin profile sha256=0123456789abcdef -->\n## Where a step goes\n",
        str(table(["category", "ms/step"], SHARES.items())),
        "![One decode step](figures/step.svg)\n\n![gone](figures/gone.svg)\n",
        str(block("$ python -m campaign\n<script>alert(1)</script>")),
        f"{text('<script>')} and {code('a|b')}\n\n<details><summary>Source</summary> x</details>\n",
        "<!-- campaign:end profile -->\n## Throughput\n\n![lines](figures/lines.svg)\n\n> a CPU run\n",
        f"<img src='http://127.0.0.1:{port}/a.png'><script src='http://127.0.0.1:{port}/b.js'></script>\n",
        f"<script>document.title = 'ran'; fetch('http://127.0.0.1:{port}/c')</script>\n",
        f"![far](http://127.0.0.1:{port}/d.png) <link rel=stylesheet href='http://127.0.0.1:{port}/e.css'>\n",
        f"<iframe src='http://127.0.0.1:{port}/f'></iframe>\n",
    ]
    return "\n".join(parts).encode()


def figures() -> dict[str, bytes]:
    return {
        "figures/step.svg": draw_step(),
        "figures/lines.svg": draw_lines(),
    }


def test_figure_links__names_local_images_once() -> None:
    assert figure_links(document() + b"\n![again](figures/step.svg)") == (
        *("figures/step.svg", "figures/gone.svg", "figures/lines.svg"),
    )


def test_export__page_holds_everything_and_refers_to_nothing() -> None:
    page = export_html(document(), figures())
    assert "<title>Kimi on eight GPUs</title>" in page
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "[figure gone is not included]" in page
    assert "secret" not in page
    assert "campaign:begin" not in page
    assert '<li><a href="#where-a-step-goes">Where a step goes</a></li>' in page
    assert "default-src 'none'" in page.split("</head>")[0]
    own = page.split("CPU run")[0]
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", own)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in own


def test_export__same_bytes_each_time() -> None:
    assert export_html(document(), figures()) == export_html(document(), figures())


def test_figures__same_bytes_title_and_both_colour_schemes() -> None:
    first, second = (draw_lines("A & B") for _ in range(2))
    assert first == second
    svg = first.decode()
    assert "<dc:date>" not in svg
    assert "<title>A &amp; B</title>" in svg
    drawn = svg.split("</style>", 1)[1]
    assert "prefers-color-scheme: dark" in svg
    assert "fill: #1f2328" in drawn
    assert "stroke: #d1d9e1" in drawn
    assert ">concurrent requests<" in svg
    assert draw_step() == draw_step()
    assert b"allreduce 11.2 ms (52.7%)" in draw_step()


def test_figures__ignore_a_persons_own_style() -> None:
    import matplotlib as mpl

    expected = draw_lines()
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "red", "lines.linewidth": 9}):
        assert draw_lines() == expected


class Log(BaseHTTPRequestHandler):
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def chromium(folder: Path, page: Path, *options: str) -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "this drill needs Chromium: apt-get install chromium"
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.proof
def test_export__in_a_browser_nothing_is_fetched_or_run_and_both_schemes_show(tmp_path: Path) -> None:
    Log.requests = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Log)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = tmp_path / "report.html"
    page.write_text(export_html(document(server.server_port), figures()), encoding="utf-8")
    dom = chromium(tmp_path, page, "--dump-dom")
    chromium(tmp_path, page, f"--screenshot={tmp_path / 'light.png'}", "--window-size=1100,1500")
    dark = "--blink-settings=preferredColorScheme=0"
    chromium(tmp_path, page, f"--screenshot={tmp_path / 'dark.png'}", "--window-size=1100,1500", dark)
    chromium(tmp_path, page, f"--print-to-pdf={tmp_path / 'report.pdf'}", "--no-pdf-header-footer")
    server.shutdown()
    server.server_close()
    assert Log.requests == []
    assert "<title>Kimi on eight GPUs</title>" in dom
    assert dom.count("<table>") == 1
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    light_at, dark_at = (_mean_brightness(tmp_path / name) for name in ("light.png", "dark.png"))
    assert light_at > 0.85
    assert dark_at < 0.25


def _mean_brightness(path: Path) -> float:
    from matplotlib.image import imread

    return float(imread(path)[..., :3].mean())
