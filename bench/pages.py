#!/usr/bin/env python3
"""Writes the pages that compression is measured with.

    pages.py                        bench/fixtures/page-9k.html and page-76k.html
    pages.py FOLDER SIZE COUNT      FOLDER/0.html, FOLDER/1.html, ...: different pages of SIZE bytes

They look like pages of a news site: a head with links and styles, navigation, articles with attributes that differ
from one to the next, and sentences made of the words that this repository's own documents put next to each other, so
that letters, words and mark-up repeat about as often as they do in real pages. The same documents give the same bytes.
"""

import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent
DOCUMENTS = ["ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "README.md"]


class Prose:
    """Sentences by a chain of word pairs."""

    def __init__(self, rng):
        self.rng = rng
        self.after = {}
        for name in DOCUMENTS:
            text = re.sub(r"[`|#*\[\]()<>]+", " ", (ROOT.parent / name).read_text())
            words = [w for w in text.split() if re.fullmatch(r"[A-Za-z][A-Za-z'-]*[.,;:]?", w)]
            for a, b in zip(words, words[1:]):
                self.after.setdefault(a, []).append(b)
        self.starts = sorted(w for w in self.after if w[0].isupper() and w.isalpha())
        self.words = sorted({w.strip(".,;:").lower() for w in self.after})

    def sentence(self):
        word, out = self.rng.choice(self.starts), []
        while len(out) < self.rng.randint(9, 26):
            out.append(word)
            # Now and then a word nobody expects, as names and terms are in real text.
            following = self.after.get(word)
            word = self.rng.choice(self.words if not following or self.rng.random() < 0.12 else following)
        return " ".join(out).rstrip(".,;:") + "."

    def paragraph(self):
        return " ".join(self.sentence() for _ in range(self.rng.randint(2, 5)))

    def title(self, most=7):
        return " ".join(self.rng.choice(self.words) for _ in range(self.rng.randint(3, most))).capitalize()


def slug(title):
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def head(prose, rng, sections):
    links = "\n".join(
        f'      <li class="nav-item"><a class="nav-link" href="/{slug(s)}/" data-section="{i}">{s}</a></li>'
        for i, s in enumerate(sections)
    )
    version = f"{rng.getrandbits(32):08x}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>{prose.title()} | The Daily Gauge</title>
  <meta name="description" content="{prose.sentence()}">
  <link rel="canonical" href="https://news.example/{slug(prose.title())}">
  <link rel="stylesheet" href="/assets/css/site.min.css?v={version}">
  <link rel="preload" href="/assets/fonts/serif-regular.woff2" as="font" type="font/woff2" crossorigin>
  <script async src="/assets/js/bundle.{version}.js"></script>
  <style>
    body {{ margin: 0; font: 16px/1.5 Georgia, serif; color: #1b1f23; background: #fdfdfb; }}
    .card {{ display: grid; grid-template-columns: 12rem 1fr; gap: 1.25rem; padding: 1rem 0; }}
    .card img {{ width: 100%; height: auto; border-radius: 4px; }}
    @media (max-width: 640px) {{ .card {{ grid-template-columns: 1fr; }} }}
  </style>
</head>
<body class="home page-{rng.randint(1, 9000)}">
  <header class="site-header">
    <a class="logo" href="/"><img src="/assets/img/logo.svg" alt="The Daily Gauge" width="180" height="32"></a>
    <nav aria-label="Sections"><ul class="nav">
{links}
    </ul></nav>
  </header>
  <main>
"""


def article(prose, rng, section):
    title = prose.title()
    number, day = rng.randint(100000, 999999), rng.randint(1, 28)
    picture = f"{rng.getrandbits(48):012x}"
    tags = "".join(f'<a class="tag" rel="tag" href="/tag/{w}">{w}</a> ' for w in rng.sample(prose.words, 3))
    text = "\n".join(f"        <p>{prose.paragraph()}</p>" for _ in range(rng.randint(1, 3)))
    return f"""    <article class="card card--{slug(section)}" id="story-{number}" data-id="{number}">
      <a href="/{slug(section)}/2026/11/{day:02}/{slug(title)}-{number}">
        <img loading="lazy" src="https://img.example/{picture[:2]}/{picture}.jpg?w=320&amp;h=213" alt="{prose.title(4)}" width="320" height="213">
      </a>
      <div class="card__body">
        <h2 class="card__title"><a href="/{slug(section)}/2026/11/{day:02}/{slug(title)}-{number}">{title}</a></h2>
        <p class="byline">By <a href="/authors/{rng.choice(prose.words)}">{prose.title(3)}</a> <time datetime="2026-11-{day:02}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:00Z">{day} November 2026</time></p>
{text}
        <p class="tags">{tags}<span class="comments">{rng.randint(0, 400)} comments</span></p>
      </div>
    </article>
"""


def page(seed, size):
    """A page of exactly `size` bytes."""
    rng = random.Random(seed)
    prose = Prose(rng)
    sections = [prose.title(3) for _ in range(7)]
    foot = """  </main>
  <footer class="site-footer"><p>&copy; 2026 The Daily Gauge. <a href="/privacy">Privacy</a> <a href="/contact">Contact</a></p></footer>
  <!-- %s -->
</body>
</html>
"""
    out = head(prose, rng, sections)
    while True:
        following = article(prose, rng, rng.choice(sections))
        if len(out) + len(following) + len(foot) > size:
            break
        out += following
    left = size - len(out) - len(foot) + 2
    filler = " ".join(prose.sentence() for _ in range(1 + left // 40))
    return out + foot % filler[:left].ljust(left)


def write(path, seed, size):
    text = page(seed, size)
    assert len(text.encode()) == size, (path, len(text))
    path.write_text(text)


if len(sys.argv) == 1:
    for name, seed, size in [("page-9k.html", 9, 9000), ("page-76k.html", 76, 76800)]:
        write(ROOT / "fixtures" / name, seed, size)
else:
    folder, size, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(count):
        write(folder / f"{number}.html", number, size)
