"""One self-contained page, also as a browser sees it."""

import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaign.export import export_html, figure_links
from campaign.figures import HATCHES, MARKERS, PALETTE, draw_svg, legend_above
from campaign.render import block, code, table, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARES = {"allreduce": 11.17, "gemm": 2.08, "attention": 1.31, "rms_norm": 1.12, "rope": 0.81, "other": 4.72}


def draw_step(figure: "Figure", axes: "Axes") -> None:
    left = 0.0
    for n, (name, ms) in enumerate(SHARES.items()):
        axes.barh(["step"], [ms], left=left, color=PALETTE[n], hatch=HATCHES[n], edgecolor="white", label=name)
        left += ms
    axes.set_xlabel("ms a decode step")
    legend_above(figure, 3)


def draw_lines(figure: "Figure", axes: "Axes") -> None:
    for n in range(3):
        axes.plot([1, 4, 16, 64], [1, 3 + n, 9 + n, 12 - n], color=PALETTE[n], marker=MARKERS[n], label=f"TP {2**n}")
    axes.set_title("Throughput")
    axes.legend()


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
        "figures/step.svg": draw_svg(draw_step, title="Step", height_in=2.2),
        "figures/lines.svg": draw_svg(draw_lines, title="Lines"),
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


def test_draw_svg__same_bytes_title_and_both_colour_schemes() -> None:
    first, second = (draw_svg(draw_step, title="A & B") for _ in range(2))
    assert first == second
    svg = first.decode()
    assert "<dc:date>" not in svg
    assert "A &amp; B" in svg
    assert "prefers-color-scheme: dark" in svg
    assert 'style="fill: #1f2328' in svg or "fill: #1f2328" in svg.split("</style>", 1)[1]
    assert ">ms a decode step<" in svg
    assert draw_svg(draw_lines, title="A & B") != first


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
