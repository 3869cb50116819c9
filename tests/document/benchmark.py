"""Time and memory of revising large documents: `python -m tests.document.benchmark` prints one line a document."""

import resource
import time

from campaign.document import revise

SIZE_BYTES = 5_000_000
ROW = "| k{n} | a \\| b | `x\\|y` | <br> & &amp; | {n} |\n"
PROSE = ("Lorem ipsum dolor sit amet, consectetur " * 3 + "\n") * 4 + "\n"
MIXED = PROSE * 3 + "- a\n- b\n\n> q\n\n```\ncode\n```\n\n"


def filled(section: str, filler: str) -> bytes:
    """A document of 5 MB: one section, the rest `filler`."""
    head = f"# T\n\n<!-- campaign:begin gemm -->\n{section}<!-- campaign:end gemm -->\n\n"
    return (head + filler * ((SIZE_BYTES - len(head)) // len(filler))).encode()


def main() -> None:
    rows = "".join(ROW.format(n=n) for n in range(10_000))
    edited = rows.replace("k500 ", "my row ")
    new = rows.replace("| 77 |", "| 78 |")
    cases = {
        "10,000 rows replaced, mixed text": (filled(rows, MIXED), None),
        "10,000 rows merged with an edit, mixed text": (filled(edited, MIXED), rows),
        "short paragraphs": (filled("old\n", "Lorem ipsum dolor sit amet.\n\n"), None),
        "one long table": (filled("old\n", "| 1 | 2 | 3 | 4 |\n"), None),
        "one long list": (filled("old\n", "- item of a list with some text\n"), None),
    }
    for name, (source, last) in cases.items():
        start, cpu = time.perf_counter(), time.process_time()
        revision = revise(source, {"gemm": new}, last_written=None if last is None else {"gemm": last})
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        state = revision.states["gemm"]
        took = f"{seconds:.2f} s ({cpu_s:.2f} s of CPU)"
        print(f"{name}: {len(source) / 1e6:.2f} MB, {state}, {took}, peak {peak_mb:.0f} MiB")


if __name__ == "__main__":
    main()
