#!/usr/bin/env python3
"""Renders the sample images of examples/ocr with DejaVu Sans (fonts-dejavu-core, python3-pil) beside their expected text.
usage: render_samples.py OUTDIR"""
import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
SAMPLES = {
    "receipt": (["Total: $1,284.50 (due 2026-12-31)"], 34, (250, 250, 246), (20, 20, 30)),
    "sign": (["Platform 9 to King Street", "Mind the gap, please!"], 40, (24, 62, 120), (255, 255, 255)),
}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, (lines, size, back, ink) in SAMPLES.items():
        font = ImageFont.truetype(FONT, size)
        widths = [font.getlength(line) for line in lines]
        step = int(size * 1.9)
        image = Image.new("RGB", (int(max(widths)) + 96, step * len(lines) + 64), back)
        draw = ImageDraw.Draw(image)
        for i, line in enumerate(lines):
            draw.text((48, 32 + i * step + (step - size) // 2 - 4), line, font=font, fill=ink)
        image.save(out / f"{name}.png", optimize=True)
        (out / f"{name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
