"use strict";
const tiles = document.getElementById("answers");
const totals = document.querySelector("#totals tbody");
const seen = new Map();
const MOST_TILES = 90;

function tile(color, title) {
  const tile = document.createElement("i");
  if (color) tile.style.setProperty("--c", color); else tile.className = "failed";
  tile.title = title;
  tiles.append(tile);
  while (tiles.children.length > MOST_TILES) tiles.firstChild.remove();
}

function count(name, color) {
  const entry = seen.get(name) ?? { color, answers: 0 };
  entry.answers += 1;
  seen.set(name, entry);
  totals.replaceChildren(...[...seen].sort().map(([name, { color, answers }]) => {
    const row = document.createElement("tr");
    for (const text of [name, `${answers} answers`]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      cell.style.setProperty("--c", color);
      row.append(cell);
    }
    return row;
  }));
}

async function ask() {
  try {
    const response = await fetch("/api/status", { cache: "no-store" });
    const { origin, color } = await response.json();
    tile(color, origin);
    count(origin, color);
  } catch (error) {
    tile(null, String(error));
    count("failed", "#f33");
  }
}

setInterval(ask, 250);
