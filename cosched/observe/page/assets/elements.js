// Makes the elements of a page. Data is inserted as text, never as HTML.
"use strict";

// The colours differ for colour-blind readers too, and are readable on light and dark.
const PALETTE = ["#3c78b4", "#d9822b", "#2f9e77", "#b5548f", "#8a6fd0", "#b8952a", "#3f9fb5", "#c4524f"];

function colour(index) {
  if (index < PALETTE.length) return PALETTE[index];
  return `hsl(${Math.round(index * 137.5) % 360} 45% 48%)`;
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

function percent(value) {
  return value === null ? "-" : (value * 100).toFixed(value > 0.995 && value < 1 ? 2 : 1) + "%";
}

function meter(value) {
  if (value === null) return "-";
  const fill = make("i", {});
  fill.style.width = `${value * 100}%`; // a policy may forbid the attribute
  return make("span", {}, make("span", {class: "meter"}, fill), percent(value));
}

function table(head, rows) {
  return make("div", {class: "scroll"}, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((words) => make("th", {}, words)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))))));
}
