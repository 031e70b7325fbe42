"""Draws a run's log as SVG: loss, and accuracy of the first answer token by kind.  `python -m train.curve LOG OUT`"""
import json
import sys

COLOURS = ["#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6", "#dd4477", "#66aa00", "#b82e2e"]
W, H, PAD = 900, 260, 46


def _path(points, x_max, y_max, top):
    at = lambda x, y: f"{PAD + x / x_max * (W - 2 * PAD - 90):.1f},{top + H - PAD - min(y, y_max) / y_max * (H - 2 * PAD):.1f}"
    return "M" + " L".join(at(x, y) for x, y in points)


def draw(log, out):
    lines = [json.loads(x) for x in open(log)]
    if not lines:
        return
    x_max = max(x["tokens"] for x in lines)
    losses = [(x["tokens"], x["loss"]) for x in lines]
    y_loss = max(y for _, y in losses)
    kinds = sorted({k for x in lines for k in x["first"]})
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{W}" height="{2 * H}" font-family="sans-serif" font-size="12">',
           f'<rect width="{W}" height="{2 * H}" fill="white"/>']
    for top, title, y_max in ((0, "loss per answer token", y_loss), (H, "accuracy of the first answer token", 1.0)):
        svg.append(f'<text x="{PAD}" y="{top + 24}" font-weight="bold">{title}</text>')
        for i in range(5):
            y = top + H - PAD - i / 4 * (H - 2 * PAD)
            svg.append(f'<line x1="{PAD}" x2="{W - PAD - 90}" y1="{y}" y2="{y}" stroke="#ddd"/><text x="8" y="{y + 4}">{y_max * i / 4:.2f}</text>')
        for i in range(6):
            x = PAD + i / 5 * (W - 2 * PAD - 90)
            svg.append(f'<text x="{x - 10}" y="{top + H - PAD + 18}">{x_max / 1e6 * i / 5:.1f} M</text>')
    for x, y in zip(lines, lines[1:]):
        if x["stage"] != y["stage"]:
            px = PAD + y["tokens"] / x_max * (W - 2 * PAD - 90)
            svg.append(f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{PAD}" y2="{2 * H - PAD}" stroke="#aaa" stroke-dasharray="3,3"/>')
    svg.append(f'<path d="{_path(losses, x_max, y_loss, 0)}" fill="none" stroke="#333"/>')
    for i, k in enumerate(kinds):
        c = COLOURS[i % len(COLOURS)]
        pts = [(x["tokens"], x["first"][k]) for x in lines if k in x["first"]]
        svg.append(f'<path d="{_path(pts, x_max, 1.0, H)}" fill="none" stroke="{c}"/>')
        svg.append(f'<text x="{W - PAD - 80}" y="{H + PAD + 16 * i}" fill="{c}">{k}</text>')
    open(out, "w").write("\n".join(svg + ["</svg>"]) + "\n")


if __name__ == "__main__":
    draw(sys.argv[1], sys.argv[2])
