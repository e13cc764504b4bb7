// Draws the table of jobs: running ones, waiting ones in their order, then those that have
// ended.
"use strict";

const ROWS_AT_ONCE = 100;
const CHOICES = [["all", () => true], ["running", (job) => RUNS.has(job.state)],
  ["waiting", (job) => WAITS.has(job.state)], ["ended", (job) => isOver(job)]];

function isOver(job) {
  return !WAITS.has(job.state) && !RUNS.has(job.state);
}

// A table whose rows keep their elements; a cell is written only if its text changed.
class KeyedTable {
  constructor(body, classes, onChosen) {
    this.body = body;
    this.table = body.parentNode;
    this.classes = classes;
    this.rows = new Map();
    body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && onChosen && !getSelection().toString()) onChosen(row.dataset.key);
    });
  }

  // rows: key and cells; a cell is a text, or a text and a class with a space before it.
  show(rows) {
    const wanted = new Set(rows.map(([key]) => key));
    for (const [key, row] of this.rows)
      if (!wanted.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    let before = null;
    for (const [key, cells] of rows) {
      const row = this.rows.get(key) || this.make(key, cells.length);
      cells.forEach((cell, index) => this.write(row, index, cell));
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== row.element) this.body.insertBefore(row.element, next);
      before = row.element;
    }
  }

  make(key, count) {
    const cells = Array.from({length: count}, (_, index) => make("td", this.classes[index] ? {class: this.classes[index]} : {}));
    const row = {element: make("tr", {}, ...cells), cells, texts: []};
    row.element.dataset.key = key;
    this.rows.set(key, row);
    return row;
  }

  write(row, index, cell) {
    if (row.texts[index] === cell) return;
    row.texts[index] = cell;
    const element = row.cells[index];
    if (index === 0 && this.classes[0] === "chosen") {
      element.replaceChildren(make("button", {class: "link"}, make("i", {}), cell));
      element.firstChild.firstChild.style.background = jobColour(row.element.dataset.key);
    } else if (typeof cell === "number") element.replaceChildren(meter(cell));
    else element.textContent = cell;
  }
}

class Queue {
  constructor(feed, explain) {
    this.feed = feed;
    this.choice = "all";
    this.most = ROWS_AT_ONCE;
    this.section = document.getElementById("queue");
    this.table = new KeyedTable(this.section.querySelector("tbody"),
      ["chosen", "name", "wide", "", "wide", "", "", "wide", "wide", "reason"], explain);
    this.search = document.getElementById("search");
    this.search.addEventListener("input", () => this.changed());
    this.onChange = () => {};
    this.buttons = CHOICES.map(([name]) => make("button", {"aria-pressed": String(name === "all")}, name));
    this.section.querySelector(".choice").append(...this.buttons);
    this.buttons.forEach((button) => button.addEventListener("click", () => this.choose(button.textContent)));
    this.button = document.getElementById("more");
    this.button.addEventListener("click", () => {
      this.most += ROWS_AT_ONCE;
      this.draw();
    });
  }

  choose(name) {
    this.choice = name;
    this.buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === name)));
    this.changed();
  }

  changed() {
    this.most = ROWS_AT_ONCE;
    this.take();
    this.onChange();
  }

  // Orders and chooses the jobs.
  take() {
    const [, fits] = CHOICES.find(([name]) => name === this.choice);
    const words = this.search.value.trim().toLowerCase();
    const found = [];
    for (const [id, job] of this.feed.jobs)
      if (fits(job) && (!words || isAbout(job, id, words))) found.push([rank(job), id, job]);
    found.sort(([one, , a], [other, , b]) => one - other ||
      (one === 2 ? b.ended_ms - a.ended_ms : one === 1 ? a.submitted_ms - b.submitted_ms : a.began_ms - b.began_ms) ||
      a.number - b.number);
    this.ids = found.map(([, id]) => id);
    this.draw();
  }

  draw() {
    const shown = this.ids.slice(0, this.most);
    this.table.show(shown.map((id) => [id, this.cells(id)]));
    const rest = this.ids.length - shown.length;
    this.button.hidden = rest <= 0;
    this.button.textContent = `${Math.min(rest, ROWS_AT_ONCE)} more of ${rest}`;
    document.getElementById("count").textContent = this.ids.length === 1 ? "1 job" : `${this.ids.length} jobs`;
  }

  cells(id) {
    const job = this.feed.jobs.get(id), live = this.feed.live.get(id);
    const began = job.began_ms === null ? null : job.began_ms / 1000;
    const end = job.ended_ms === null ? this.feed.now : job.ended_ms / 1000;
    const start = began !== null ? clock(began) : this.feed.starts.has(id) && !isOver(job)
      ? "~" + clock(this.feed.starts.get(id) / 1000) : "-";
    return [
      job.number === null ? "-" : String(job.number), job.name, job.user,
      job.minimum === null ? String(job.node_count ?? "-") : sizes(job), String(job.tasks ?? "-"),
      SIGNS[job.state] ? `${SIGNS[job.state]} ${job.state}` : `✕ ${job.state}`, start,
      began === null ? "-" : lasting(end - began), live ? live.scheduled : "-", this.reason(id, job),
    ];
  }

  reason(id, job) {
    if (isOver(job)) return job.reason || (job.status === null ? "" : `status ${job.status}`);
    if (RUNS.has(job.state)) return hosts(job.nodes) + beside(job);
    return job.mates || this.feed.waits.get(id) || "";
  }
}

const SIGNS = {running: "▶", starting: "▷", queued: "◷", held: "⏸", done: "✓", ended: "✓"};

function nodes(count) {
  return counted(count ?? "some", "node");
}

function counted(count, thing) {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

// Returns the halves that a job has, and the jobs on the others; empty for whole nodes.
function beside(job) {
  if (!job.halves.length) return "";
  const halves = [...new Set(job.halves)].join(" and ");
  const others = job.beside.length ? `job ${job.beside.join(" and job ")}` : "no job";
  return `: ${halves}, beside ${others}`;
}

function sizes(job) {
  const bounds = [...new Set([job.minimum, job.preferred ?? job.ideal, job.ideal])].join("-");
  return RUNS.has(job.state) ? `${new Set(job.nodes).size} of ${bounds}` : bounds;
}

function rank(job) {
  return RUNS.has(job.state) ? 0 : WAITS.has(job.state) ? 1 : 2;
}

function isAbout(job, id, words) {
  return [id, job.name, job.user, job.state, ...job.nodes].some((text) => text.toLowerCase().includes(words));
}
