// SPDX-License-Identifier: Apache-2.0
// Readable without it: this adds values under the pointer, zoom on the time axis, and switches for what is drawn.
"use strict";
const PLOT = 10000;
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];

function make(tag, attributes = {}, ...children) {
  const space = ["line", "text", "rect"].includes(tag) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// As base/units.py writes figures.
function inWords(value, steps) {
  const [size, unit] = steps.find(([step]) => Math.abs(value) >= 0.9995 * step) || steps[steps.length - 1];
  const scaled = value / size;
  const digits = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : scaled >= 0.9995 || !scaled ? 2 : 3;
  return `${value ? scaled.toFixed(digits) : 0} ${unit}`;
}

// As svg.py chooses ticks, from any beginning on.
function ticksOf(low, high, count, steps) {
  const [size, unit] = steps.find(([step]) => high >= 2 * step) || steps[steps.length - 1];
  const raw = (high - low) / size / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= 0.999 * raw);
  const found = [];
  for (let number = Math.ceil(low / size / step - 1e-9); number * step * size <= high * (1 + 1e-9); number++) {
    found.push([number * step * size, String(+(number * step).toPrecision(10))]);
  }
  if (found.length) found[found.length - 1][1] += ` ${unit}`;
  return found;
}

const tip = make("div", { class: "tip", "aria-hidden": "true", hidden: "" });

function showTip(event, lines) {
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const left = event.pageX + 16 + tip.offsetWidth > scrollX + document.documentElement.clientWidth ? event.pageX - 16 - tip.offsetWidth : event.pageX + 16;
  tip.style.left = `${Math.max(scrollX + 4, left)}px`;
  tip.style.top = `${Math.max(scrollY + 4, Math.min(event.pageY + 16, scrollY + innerHeight - tip.offsetHeight - 4))}px`;
}

// What a tool tip of the drawing says, at once.
function readTitles() {
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.setAttribute("data-tip", title.textContent);
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const words = event.target.getAttribute && event.target.getAttribute("data-tip");
    if (words) showTip(event, [words]);
    else if (!event.target.closest || !event.target.closest("[data-span]")) tip.hidden = true;
  });
}

class TimeChart {
  constructor(chart, names) {
    [this.left, this.area, this.below] = chart.children;
    this.plot = this.area.querySelector(".plot");
    this.span = +chart.dataset.span;
    this.high = +chart.dataset.high;
    this.curves = [...this.plot.querySelectorAll("path")].map((path) => {
      const css = path.getAttribute("class").split(" ");
      // A place, then steps; what follows them is the floor of an area.
      const numbers = path.getAttribute("d").split("L")[0].match(/-?\d+/g).map(Number), points = [];
      for (let at = 0, x = 0, y = 0; at < numbers.length; at += 2) points.push([x += numbers[at], y += numbers[at + 1]]);
      return { path, points, css: css.slice(1).join(" "), name: names.get(css[css.length - 1]) };
    });
    this.cursor = make("line", { class: "cursor", y1: 0, y2: "100%", visibility: "hidden" });
    this.chosen = make("rect", { class: "chosen", y: 0, height: "100%", visibility: "hidden" });
    this.area.append(this.chosen, this.cursor);
    this.addButtons(chart);
    this.addPointer();
    this.from = 0;
    this.to = PLOT;
  }

  addButtons(chart) {
    const button = (words, act) => {
      const made = make("button", { type: "button" }, words);
      made.addEventListener("click", act);
      return made;
    };
    const width = () => this.to - this.from;
    this.buttons = [
      button("zoom in", () => this.zoom(this.from + width() / 4, this.to - width() / 4)),
      button("zoom out", () => this.zoom(this.from - width() / 2, this.to + width() / 2)),
      button("earlier", () => this.zoom(this.from - Math.min(width() / 2, this.from), this.to - Math.min(width() / 2, this.from))),
      button("later", () => this.zoom(this.from + Math.min(width() / 2, PLOT - this.to), this.to + Math.min(width() / 2, PLOT - this.to))),
      button("whole time", () => this.zoom(0, PLOT)),
    ];
    this.said = make("span", { role: "status" });
    chart.after(make("div", { class: "zoom", role: "group", "aria-label": "Zoom on the time axis" }, ...this.buttons, this.said));
  }

  // Where the pointer is, between 0 and PLOT of the whole time.
  placeOf(event) {
    const box = this.area.getBoundingClientRect();
    return this.from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (this.to - this.from);
  }

  addPointer() {
    let begun = null;
    this.area.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch") return;
      begun = this.placeOf(event);
      event.preventDefault();
    });
    this.area.addEventListener("pointermove", (event) => this.hover(event, begun));
    this.area.addEventListener("pointerleave", () => {
      begun = null;
      this.endHover();
    });
    this.area.addEventListener("pointerup", (event) => {
      const ended = this.placeOf(event);
      if (begun !== null && Math.abs(ended - begun) > (this.to - this.from) / 100) this.zoom(Math.min(begun, ended), Math.max(begun, ended));
      begun = null;
      this.endHover();
    });
    this.area.addEventListener("dblclick", () => this.zoom(0, PLOT));
  }

  endHover() {
    tip.hidden = true;
    this.cursor.setAttribute("visibility", "hidden");
    this.chosen.setAttribute("visibility", "hidden");
  }

  hover(event, begun) {
    const place = this.placeOf(event);
    const share = (at) => (100 * (at - this.from)) / (this.to - this.from);
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, `${share(place)}%`);
    this.cursor.setAttribute("visibility", "visible");
    if (begun !== null) {
      this.chosen.setAttribute("x", `${share(Math.min(begun, place))}%`);
      this.chosen.setAttribute("width", `${Math.abs(share(place) - share(begun))}%`);
      this.chosen.setAttribute("visibility", "visible");
    }
    const lines = this.shown().map((curve) => [curve, this.valueAt(curve.points, place)]).filter(([, value]) => value !== null)
      .sort(([, one], [, other]) => other - one)
      .map(([curve, value]) => make("span", { class: curve.css }, make("i"), make("b", {}, curve.name), inWords(value, BYTES)));
    showTip(event, [inWords((place / PLOT) * this.span, TIMES), ...lines]);
  }

  valueAt(points, place) {
    const after = points.findIndex(([x]) => x >= place);
    if (after < 0 || (after === 0 && points[0][0] > place)) return null;
    const [x2, y2] = points[after], [x1, y1] = points[Math.max(after - 1, 0)];
    const y = x2 > x1 ? y1 + ((y2 - y1) * (place - x1)) / (x2 - x1) : y2;
    return ((PLOT - y) / PLOT) * this.high;
  }

  shown() {
    return this.curves.filter(({ path }) => !path.classList.contains("off"));
  }

  zoom(from, to) {
    this.from = Math.max(from, 0);
    this.to = Math.min(to, PLOT);
    const whole = this.from === 0 && this.to === PLOT;
    this.buttons.forEach((button, number) => {
      button.disabled = [this.to - this.from < 20, whole, this.from === 0, this.to === PLOT, whole][number];
    });
    this.said.textContent = whole ? "or drag over a part of it" :
      `${inWords((this.from / PLOT) * this.span, TIMES)} to ${inWords((this.to / PLOT) * this.span, TIMES)}`;
    this.draw();
  }

  // The part that is shown, as high as what is shown of it, with ticks of its own.
  draw() {
    const { from, to } = this;
    let top = PLOT;
    for (const { points } of this.shown()) {
      for (const [x, y] of points) if (x >= from && x <= to) top = Math.min(top, y);
      for (const place of [from, to]) {
        const value = this.valueAt(points, place);
        if (value !== null) top = Math.min(top, PLOT - (value / this.high) * PLOT);
      }
    }
    const height = Math.max((PLOT - top) * 1.04, 1), most = (height / PLOT) * this.high;
    this.plot.setAttribute("viewBox", `${from} ${PLOT - height} ${to - from} ${height}`);
    for (const line of this.area.querySelectorAll(":scope > .grid")) line.remove();
    this.left.replaceChildren();
    for (const [value, words] of ticksOf(0, most, 6, BYTES)) {
      const y = `${100 * (1 - value / most)}%`;
      this.left.append(make("text", { x: "100%", y, dy: 4.5, "text-anchor": "end" }, words));
      this.area.prepend(make("line", { class: "grid", x1: 0, x2: "100%", y1: y, y2: y }));
    }
    const begin = (from / PLOT) * this.span, end = (to / PLOT) * this.span;
    this.below.replaceChildren(...ticksOf(begin, end, this.area.clientWidth > 500 ? 6 : 4, TIMES).map(([time, words]) => {
      const part = (time - begin) / (end - begin);
      return make("text", { x: `${100 * part}%`, y: 18, "text-anchor": part > 0.985 ? "end" : part < 0.01 ? "start" : "middle" }, words);
    }));
  }
}

// Each entry of a key switches what it names, everywhere in its experiment.
function addSwitches(chapter, chart) {
  const buttons = new Map();
  for (const item of chapter.querySelectorAll(".key li")) {
    const what = item.classList[item.classList.length - 1];
    if (item.classList[0].startsWith("part-")) continue;
    const button = make("button", { type: "button", "aria-pressed": "true" }, ...item.childNodes);
    item.append(button);
    buttons.set(what, [...(buttons.get(what) || []), button]);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") === "false";
      for (const other of buttons.get(what)) other.setAttribute("aria-pressed", String(on));
      for (const drawn of chapter.querySelectorAll(`.${what}`)) if (!drawn.closest(".key")) drawn.classList.toggle("off", !on);
      if (chart) chart.draw();
    });
  }
}

// What is under the pointer: the picture has a pixel for each cell, and eight bytes say what is in it (heap_maps.py).
function addMap(image) {
  const map = JSON.parse(image.dataset.map), bytes = Uint8Array.from(atob(image.dataset.cells), (letter) => letter.charCodeAt(0));
  const begun = [];
  map.regions.reduce((cells, [, , count]) => { begun.push(cells); return cells + count; }, 0);
  const hex = (cell) => `0x${(cell * map.pages * 4096).toString(16)}`;
  const linesAt = (place) => {
    const number = map.regions.findLastIndex(([first]) => first <= place);
    if (number < 0) return null;
    const [first, cell, count] = map.regions[number], next = map.regions[number + 1];
    if (place >= first + count) return next ? [`a gap of ${inWords((next[1] - cell - count) * map.pages * 4096, BYTES)}`] : null;
    const at = 8 * (begun[number] + place - first), here = cell + place - first;
    const [state, live, owner] = bytes.subarray(at), pages = bytes[at + 3] | bytes[at + 4] << 8, blocks = bytes[at + 5] | bytes[at + 6] << 8 | bytes[at + 7] << 16;
    const lines = [`${hex(here)}–${hex(here + 1)}`, `${pages} of ${map.pages} ${map.pages === 1 ? "page" : "pages"} resident`];
    if (state === 3) lines.push(`${blocks} ${blocks === 1 ? "block" : "blocks"}, ${live} % live`);
    else lines.push(["", "tables: never held a block", "free pages"][state]);
    if (owner) lines.push(`mostly ${map.owners[owner - 1]}`);
    return lines.filter(Boolean);
  };
  image.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect(), size = box.width / map.width;
    const lines = linesAt(Math.floor((event.clientY - box.top) / size) * map.width + Math.min(Math.floor((event.clientX - box.left) / size), map.width - 1));
    if (lines) showTip(event, lines.map((line) => make("div", {}, line)));
    else tip.hidden = true;
    event.stopPropagation();
  });
  image.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// Zoom and search of a flame graph: each cell has its place in parts of the width.
class Flame {
  constructor(figure) {
    this.cells = [...figure.querySelectorAll(".cell")].map((cell) => {
      const left = parseFloat(cell.getAttribute("x")), tip = cell.querySelector("title").textContent;
      return { cell, left, right: left + parseFloat(cell.getAttribute("width")), y: +cell.getAttribute("y"), tip: tip.toLowerCase(), graph: cell.parentNode };
    });
    for (const one of this.cells) one.cell.addEventListener("click", () => this.zoom(one));
    this.said = make("span", { role: "status" });
    this.whole = make("button", { type: "button" }, "whole tree");
    this.whole.addEventListener("click", () => this.zoom(null));
    this.input = make("input", { type: "search", "aria-label": "Find a function", placeholder: "find a function" });
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.zoom(this.widest() || null);
    });
    figure.before(make("div", { class: "zoom find", role: "group", "aria-label": "Flame graph" }, this.input, this.whole, this.said));
    this.zoom(null);
    this.find();
  }

  // The widest match in the graphs that are open, callers first.
  widest() {
    return this.cells.filter(({ cell, graph }) => cell.classList.contains("match") && graph.closest("details").open)
      .sort((one, other) => other.right - other.left - (one.right - one.left) || one.y - other.y)[0];
  }

  find() {
    const words = this.input.value.trim().toLowerCase();
    let found = 0;
    for (const { cell, tip } of this.cells) {
      const match = words !== "" && tip.slice(0, tip.lastIndexOf(": ")).includes(words);
      cell.classList.toggle("match", match);
      found += match;
    }
    this.said.textContent = words ? `${found} found; Enter shows the widest` : "click on a function to zoom";
  }

  // Those below the chosen cell fill the width; so do its callers.
  zoom(chosen) {
    this.whole.disabled = !chosen;
    for (const { cell, left, right, y, graph } of this.cells) {
      const inside = !chosen || graph !== chosen.graph;
      const [from, to] = inside ? [0, 100] : [chosen.left, chosen.right];
      const above = !inside && y < chosen.y && left <= from + 0.01 && right >= to - 0.01;
      cell.classList.toggle("above", above);
      cell.classList.toggle("off", !inside && !above && (y < chosen.y || left < from - 0.005 || right > to + 0.02 || left >= to));
      const part = (place) => (100 * (Math.min(Math.max(place, from), to) - from)) / (to - from);
      cell.setAttribute("x", `${part(left)}%`);
      cell.setAttribute("width", `${part(right) - part(left)}%`);
    }
  }
}

document.body.append(tip);
for (const figure of document.querySelectorAll(".flames")) new Flame(figure);
for (const image of document.querySelectorAll("[data-map]")) addMap(image);
readTitles();
for (const chapter of document.querySelectorAll("article")) {
  const drawn = chapter.querySelector("[data-span]");
  const names = new Map([...chapter.querySelectorAll(".over-time .key li")].map((item) => [item.classList[item.classList.length - 1], item.textContent]));
  const chart = drawn && new TimeChart(drawn, names);
  addSwitches(chapter, chart);
  if (chart) chart.zoom(0, PLOT);
}
