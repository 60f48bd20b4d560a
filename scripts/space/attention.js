// Copyright 2026 The vaswani_transformer authors.
// SPDX-License-Identifier: Apache-2.0
// Draws the answer of the server into attention.html; gr.HTML passes in `element`, `props` and `watch`.
// Text enters the page through textContent alone. All weights lie in the answer, so no choice asks the server.

const SIDES = {
  cross: ["target token predicted", "source token attended to"],
  encoder: ["source token", "source token attended to"],
  decoder: ["target token fed", "target token attended to"],
};
const MEAN = "mean";
const PAIRS_HINT = "The darker a word, the less sure the model is of it. Point at a word, or move with Tab and the arrow "
  + "keys, to read its probability.";
const HINT = "Point at a token or a cell, or move with Tab and the arrow keys, to read its weights.";

const find = (selector) => element.querySelector(selector);
const layer = find(".layer"), head = find(".head");
let answer = {}, sentence = null, chosen = 0, map = null, spot = {};

function make(tag, attributes = {}, text = "") {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

const short = (weight) => weight.toFixed(2).replace(/^0/, "");

/** Gives a node the color of a weight; the steps are where white or black text on it stops being readable. */
function tint(node, weight) {
  node.style.setProperty("--weight", weight.toFixed(3));
  node.classList.toggle("over-half", weight >= 0.52);
  node.classList.toggle("strong", weight >= 0.69);
}

/** One tab stop for all nodes, in rows of `columns`; the arrow keys, Home and End move between them. */
function rove(container, nodes, columns) {
  nodes.forEach((node, index) => { node.tabIndex = index ? -1 : 0; });
  container.onkeydown = (event) => {
    const at = nodes.indexOf(event.target), first = at - (at % columns), last = first + columns - 1;
    const to = {
      ArrowLeft: Math.max(first, at - 1), ArrowRight: Math.min(last, at + 1),
      ArrowUp: at - columns, ArrowDown: at + columns, Home: first, End: last,
    }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    nodes[to]?.focus();
  };
}

// ---- the translations ----

function showAnswer() {
  answer = props.value || {};
  const sentences = answer.sentences || [];
  if (!sentences.length) find(".message").textContent = answer.message || "The translation appears here.";
  find(".message").hidden = sentences.length > 0;
  find(".answer").hidden = !sentences.length;
  if (!sentences.length) return;
  const text = sentences.map((each) => each.translations[0].text + each.after).join("");
  find(".translation").textContent = answer.before + text || "(empty)";
  find(".translation").lang = props.lang;
  find(".pairs").classList.toggle("several", sentences.length > 1);
  find(".pairs tbody").replaceChildren(...sentences.map(pairRow));
  find("#pairs-hint").textContent = PAIRS_HINT;
  showSentence(0);
}

function showSentence(index) {
  sentence = answer.sentences[index];
  chosen = 0;
  find(".best tbody").replaceChildren(...sentence.translations.map(bestRow));
  showChosen();
}

/** A sentence and its best translation, word by word. */
function pairRow({ source, translations: [best] }, index) {
  const row = make("tr"), left = make("td"), right = make("td");
  const radio = make("input", { type: "radio", name: "sentence", value: index, "aria-label": `Sentence ${index + 1}` });
  radio.checked = index === 0;
  left.append(radio, make("span", { dir: "auto" }, source));
  const strip = make("div", { class: "words", role: "toolbar", "aria-label": `Translation ${index + 1}`, dir: "auto" });
  strip.lang = props.lang;
  const words = best.text.match(/\S+/g) || [], isScored = best.words.length === words.length;
  const buttons = words.map((word, place) => {
    const sure = isScored ? Math.exp(best.words[place].score) : 1;
    const told = isScored ? `${word}; probability ${sure.toFixed(2)}` : `${word}; not scored`;
    const node = make("button", { type: "button", class: "word", "aria-label": told }, word);
    tint(node, 1 - sure);
    return node;
  });
  strip.append(...buttons);
  rove(strip, buttons, buttons.length);
  right.append(strip);
  row.append(left, right);
  return row;
}

/** Tells how sure the model is of the word that is pointed at. */
function showWord({ target }) {
  const word = target.closest(".word");
  if (word) find("#pairs-hint").textContent = `${word.getAttribute("aria-label")}.`;
}

function bestRow(translation, index) {
  const row = make("tr"), cell = make("td"), label = make("label");
  const radio = make("input", { type: "radio", name: "translation", value: index });
  radio.checked = index === chosen;
  label.append(radio, make("span", { lang: props.lang, dir: "auto" }, translation.text || "(empty)"));
  cell.append(label);
  row.append(cell);
  const figures = { "Score": translation.score?.toFixed(3) ?? "", "Log P": translation.log_prob?.toFixed(3) ?? "", "Tokens": translation.length || "" };
  for (const [name, figure] of Object.entries(figures)) row.append(make("td", { "data-name": name }, figure));
  return row;
}

// ---- the chosen map ----

function showChosen() {
  const translation = sentence.translations[chosen];
  find(".note").textContent = translation.note || "";
  find(".attention").hidden = !translation.maps;
  if (translation.maps) showKind();
}

function showKind() {
  const kind = find("[name=kind]:checked").value;
  const packed = kind === "encoder" ? sentence.encoder : sentence.translations[chosen].maps[kind];
  const bytes = Uint8Array.from(atob(packed.weights), (letter) => letter.charCodeAt(0));
  map = { ...packed, bytes, sides: SIDES[kind] };
  spot = {};
  fill(layer, packed.layers, [], packed.layers - 1);
  fill(head, packed.heads, [MEAN], MEAN);
  showMap();
}

/** Options 0, 1, ... after those of words; the one chosen before stays, if it is there. */
function fill(select, count, words, usual) {
  const before = select.value, values = [...words, ...Array(count).keys()].map(String);
  select.replaceChildren(...values.map((value) => make("option", { value }, value === MEAN ? "mean of all" : value)));
  select.value = values.includes(before) ? before : usual;
}

function weightAt(row, column) {
  const heads = head.value === MEAN ? [...Array(map.heads).keys()] : [Number(head.value)];
  const [R, C] = [map.rows.length, map.columns.length];
  const start = (each) => (Number(layer.value) * map.heads + each) * R * C;
  return heads.reduce((sum, each) => sum + map.bytes[start(each) + row * C + column], 0) / 255 / heads.length;
}

function showMap() {
  map.weights = map.rows.map((_, row) => map.columns.map((_, column) => weightAt(row, column)));
  for (const [index, [side, tokens]] of [["row", map.rows], ["column", map.columns]].entries()) {
    find(`#${side}-title`).textContent = map.sides[index][0].toUpperCase() + map.sides[index].slice(1);
    const chips = tokens.map((token, position) => chip(side, token, position));
    const strip = find(`.tokens[data-side=${side}]`);
    strip.replaceChildren(...chips);
    rove(strip, chips, chips.length);
  }
  find(".map").replaceChildren(heatMap());
  showSpot();
}

function chip(side, token, position) {
  const node = make("button", { type: "button", class: "token", [`data-${side}`]: position });
  node.append(make("span", { dir: "auto" }, token), make("small"));
  return node;
}

function heatMap() {
  const table = make("table", { role: "grid", "aria-labelledby": "attention-title map-title" });
  find("#map-title").textContent = `Rows: ${map.sides[0]}. Columns: ${map.sides[1]}. Weights from .10 are written in.`;
  const top = table.createTHead().insertRow(), body = table.createTBody(), cells = [];
  top.append(make("td"));
  map.columns.forEach((token, column) => {
    const title = make("th", { scope: "col", title: token, "data-column": column });
    title.append(make("span", {}, token));
    top.append(title);
  });
  map.rows.forEach((token, row) => {
    const line = body.insertRow();
    line.append(make("th", { scope: "row", title: token, "data-row": row }, token));
    map.weights[row].forEach((weight, column) => {
      const title = `${token} → ${map.columns[column]}: ${weight.toFixed(2)}`;
      const cell = make("td", { role: "gridcell", title, "data-row": row, "data-column": column });
      cell.textContent = weight >= 0.095 ? short(weight) : "";
      tint(cell, weight);
      line.append(cell);
      cells.push(cell);
    });
  });
  rove(table, cells, map.columns.length);
  return table;
}

// ---- what is pointed at ----

/** Marks the row and the column that are pointed at, and tints what they attend to or are attended from. */
function showSpot() {
  const { row, column } = spot;
  for (const [side, at] of Object.entries({ row, column })) {
    for (const title of element.querySelectorAll(`.map th[data-${side}]`))
      title.classList.toggle("on", Number(title.dataset[side]) === at);
    for (const node of element.querySelectorAll(`.tokens [data-${side}]`)) {
      const position = Number(node.dataset[side]), other = side === "row" ? column : row;
      const attended = other !== undefined && (side === "column" || row === undefined);
      const weight = !attended ? 0 : side === "row" ? map.weights[position][other] : map.weights[other][position];
      node.setAttribute("aria-pressed", position === at);
      node.lastChild.textContent = weight >= 0.005 ? short(weight) : "";
      tint(node, weight);
    }
  }
  find(".readout").textContent = readout(row, column);
}

function readout(row, column) {
  if (row === undefined && column === undefined) return HINT;
  const token = row === undefined ? map.columns[column] : map.rows[row];
  if (row !== undefined && column !== undefined)
    return `“${token}” attends to “${map.columns[column]}” with weight ${map.weights[row][column].toFixed(2)}.`;
  const weights = row === undefined ? map.weights.map((line) => line[column]) : map.weights[row];
  const others = row === undefined ? map.rows : map.columns;
  const most = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  const list = most.map((each) => `“${others[each]}” ${weights[each].toFixed(2)}`).join(", ");
  return `“${token}” ${row === undefined ? "is attended to most by" : "attends most to"} ${list}.`;
}

function point(event) {
  const node = event.target.closest("[data-row], [data-column]");
  if (!node) return;
  const { row, column } = node.dataset;
  spot = { row: row && Number(row), column: column && Number(column) };
  showSpot();
  if (event.type !== "focusin") return;
  for (const other of node.closest("table, .tokens").querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  node.tabIndex = 0;
}

find(".pairs").addEventListener("pointerover", showWord);
find(".pairs").addEventListener("focusin", showWord);
find(".attention").addEventListener("pointerover", point);
find(".attention").addEventListener("focusin", point);
element.addEventListener("change", ({ target }) => {
  if (target.name === "translation") {
    chosen = Number(target.value);
    showChosen();
  } else if (target.name === "sentence") showSentence(Number(target.value));
  else if (target.name === "kind") showKind();
  else if (target === layer || target === head) showMap();
});
watch("value", showAnswer);
showAnswer();
