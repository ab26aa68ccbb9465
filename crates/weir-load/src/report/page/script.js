"use strict";
// Values under the pointer, and lines that can be switched off. Without it the page shows the same figures.
const digits = n => n >= 99.95 ? n.toFixed(0) : n >= 9.995 ? n.toFixed(1) : n.toFixed(2);
const units = {
  time: s => s <= 0 ? "0" : s < 1e-6 ? digits(s * 1e9) + " ns" : s < 1e-3 ? digits(s * 1e6) + " µs"
    : s < 1 ? digits(s * 1e3) + " ms" : digits(s) + " s",
  rate: n => Math.round(n).toLocaleString("en") + "/s",
  number: n => Math.round(n).toLocaleString("en"),
  share: p => (p * 100).toPrecision(Math.max(3, Math.ceil(-Math.log10(1 - p)) + 2)).replace(/\.?0+$/, "") + "%",
};
const scales = { linear: x => x, log: x => 10 ** x, nines: x => 1 - 10 ** -x };
const axis = text => {
  const [scale, low, high, unit] = text.split(" ");
  return share => units[unit](scales[scale](+low + (high - low) * share));
};
const points = path => path.getAttribute("d").split(/[ML]/).slice(1).map(pair => pair.split(" ").map(Number));
const heightAt = (list, x) => {
  const after = list.findIndex(point => point[0] >= x);
  if (after < 0 || (after === 0 && list[0][0] > x + 1)) return null;
  const [x1, y1] = list[after], [x0, y0] = list[Math.max(after - 1, 0)];
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y1;
};
for (const svg of document.querySelectorAll("svg[data-frame]")) {
  const figure = svg.closest("figure"), [left, top, width, height] = svg.dataset.frame.split(" ").map(Number);
  const showX = axis(svg.dataset.x), showY = axis(svg.dataset.y);
  const lines = [...svg.querySelectorAll("path.line")].map(path => ({ path, list: points(path) }));
  const pointer = document.createElementNS(svg.namespaceURI, "line");
  pointer.setAttribute("class", "pointer");
  pointer.setAttribute("y1", top);
  pointer.setAttribute("y2", top + height);
  const tip = document.createElement("div");
  tip.className = "tip";
  const hide = () => { pointer.remove(); tip.remove(); };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), zoom = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * zoom;
    if (x < left || x > left + width) return hide();
    tip.textContent = showX((x - left) / width);
    for (const { path, list } of lines) {
      const y = path.classList.contains("off") ? null : heightAt(list, x);
      if (y === null) continue;
      const row = document.createElement("div"), dot = document.createElement("i");
      dot.style.background = getComputedStyle(path).stroke;
      row.append(dot, `${path.dataset.name}: ${showY(1 - (y - top) / height)}`);
      tip.append(row);
    }
    pointer.setAttribute("x1", x);
    pointer.setAttribute("x2", x);
    svg.append(pointer);
    figure.append(tip);
    const place = event.clientX - figure.getBoundingClientRect().left, room = figure.clientWidth - tip.offsetWidth;
    tip.style.left = Math.max(0, Math.min(place + 14 > room ? place - tip.offsetWidth - 14 : place + 14, room)) + "px";
    tip.style.top = box.top - figure.getBoundingClientRect().top + 12 + "px";
  });
}
for (const key of document.querySelectorAll("button.key")) {
  key.addEventListener("click", () => {
    const off = key.classList.toggle("off");
    for (const line of key.closest("figure").querySelectorAll("svg[data-frame] [data-name]"))
      if (line.dataset.name === key.dataset.name) line.classList.toggle("off", off);
  });
}
document.body.classList.add("live");
