// Draws the timeline: a row for each node, with a bar for each span in which a job was
// scheduled there. The last row shows when a job ran on all its nodes. Only the visible part is
// drawn.
"use strict";

const LABELS = 96, LANE = 26, GAP = 16, MARKS = 9, CROWD = 7, LEAST_S = 20e-6;

function rowsOf(timeline) {
  const rows = timeline.nodes.map((node) => ({
    name: node.name,
    parts: node.parts,
    lanes: node.lanes.map(lane),
    refused: {at: sums(node.refused.at), job: node.refused.job, reason: node.refused.reason},
  }));
  if (timeline.together.begin.length)
    rows.push({name: "on all nodes", parts: [], lanes: [lane(timeline.together)], refused: null});
  return rows;
}

function lane(spans) {
  const begin = sums(spans.begin);
  const end = begin.map((at, index) => at + spans.length[index] / 1e6);
  return {begin, end, job: spans.job, cause: spans.cause || null};
}

class Timeline extends TimeView {
  constructor(host, data, colours, onView) {
    super();
    this.host = host;
    this.data = data;
    this.colours = colours;
    this.onView = onView;
    this.rows = rowsOf(data);
    this.length = Math.max(data.length_us / 1e6, LEAST_S);
    this.chosen = null;
    this.look = {
      colour: (job) => colours[job], name: (job) => data.jobs[job], lit: (job) => this.lit(job),
    };
    this.pulled = data.causes.findIndex(([name]) => name === "pulled");
    this.place();
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    host.append(this.tip);
    host.tabIndex = 0;
    this.plot = new uPlot(this.options(), [[0, this.length], [null, null]], host);
    this.listen();
  }

  // The place of each row, in CSS pixels from the top of the drawing.
  place() {
    let top = 4;
    for (const row of this.rows) {
      row.top = top;
      row.height = row.lanes.length * LANE;
      top += row.height + (row.refused === null ? 4 : GAP);
    }
    this.height = top;
  }

  options() {
    const text = () => style("--soft");
    return {
      width: this.host.clientWidth,
      height: this.height + 46,
      padding: [0, 12, 0, 0],
      legend: {show: false},
      cursor: {y: false, points: {show: false}, drag: {x: true, y: false}},
      scales: {x: {time: false}, y: {range: [0, 1]}},
      series: [{}, {}],
      axes: [
        {stroke: text, grid: {stroke: () => style("--line"), width: 1}, ticks: {show: false},
         label: "seconds", labelSize: 20, size: 26},
        {size: LABELS, values: () => [], grid: {show: false}, ticks: {show: false}, splits: () => [0]},
      ],
      hooks: {
        draw: [() => this.draw()],
        setCursor: [() => this.point()],
        setScale: [(plot, key) => key === "x" && this.moved()],
      },
    };
  }

  show(from, to) {
    const width = Math.min(this.length, Math.max(LEAST_S, to - from));
    const min = Math.min(Math.max(0, from), this.length - width);
    this.plot.setScale("x", {min, max: min + width});
  }

  choose(job) {
    this.chosen = this.chosen === job ? null : job;
    this.plot.redraw(false);
  }

  resize() {
    this.plot.setSize({width: this.host.clientWidth, height: this.height + 46});
  }

  listen() {
    const over = this.plot.over;
    over.addEventListener("wheel", (event) => {
      event.preventDefault();
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.pan(sideways / 800);
      else this.zoom(Math.exp(event.deltaY / 400), this.plot.posToVal(event.offsetX, "x"));
    }, {passive: false});
    over.addEventListener("dblclick", () => this.show(0, this.length));
    over.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    const keys = {
      ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.show(0, this.length), Home: () => this.show(0, this.length),
    };
    this.host.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    new ResizeObserver(() => this.resize()).observe(this.host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot.redraw(false));
  }

  moved() {
    if (!this.plot) return; // while it is being made
    const [min, max] = this.view;
    const inView = this.rows
      .filter((row) => row.refused !== null)
      .flatMap((row) => row.lanes)
      .reduce((sum, one) => sum + firstAbove(one.begin, max) - firstAbove(one.end, min), 0);
    this.onView(min, max, inView);
  }

  draw() {
    const {ctx, bbox} = this.plot;
    const scale = devicePixelRatio;
    const [min, max] = this.view;
    const frame = {
      ctx, scale, min, max, left: bbox.left, top: bbox.top, width: bbox.width,
      x: (at) => bbox.left + ((at - min) / (max - min)) * bbox.width,
    };
    ctx.save();
    ctx.font = `${13 * scale}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    for (const row of this.rows) this.drawRow(frame, row);
    ctx.restore();
  }

  drawRow(frame, row) {
    const {ctx, scale, left, top, width} = frame;
    const middle = top + (row.top + row.height / 2) * scale;
    ctx.textAlign = "right";
    ctx.fillStyle = style("--text");
    const text = (words, at) => ctx.fillText(words, left - 10 * scale, at, (LABELS - 14) * scale);
    if (row.parts.length) row.parts.forEach((cpus, index) =>
      text(`${row.name} CPU ${cpus}`, top + (row.top + (index + 0.5) * LANE) * scale));
    else text(row.name, middle);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top + (row.top - MARKS) * scale, width, (row.height + 2 * MARKS) * scale);
    ctx.clip();
    row.lanes.forEach((one, index) => {
      const laneTop = top + (row.top + index * LANE) * scale;
      ctx.fillStyle = style("--empty");
      ctx.fillRect(left, laneTop, width, (LANE - 2) * scale);
      paintSpans(frame, one, laneTop, (LANE - 2) * scale, this.look);
      if (one.cause) this.drawPulls(frame, one, laneTop);
    });
    if (row.refused) this.drawRefusals(frame, row.refused, top + (row.top + row.height) * scale);
    ctx.restore();
  }

  // A triangle on the bar's edge: a message pulled this switch. If the triangles are too
  // dense, a line above the bar; it is darker where more of the switches were pulled.
  drawPulls(frame, one, top) {
    const {ctx, scale, min, max, width} = frame;
    const found = [];
    const first = firstAbove(one.begin, min), last = firstAbove(one.begin, max);
    for (let index = first; index < last; index++)
      if (one.cause[index] === this.pulled && this.lit(one.job[index])) found.push(frame.x(one.begin[index]));
    ctx.fillStyle = style("--mark");
    if (found.length * CROWD * scale > width) this.drawShares(frame, one, found, first, last, top);
    else found.forEach((at) => this.triangle(ctx, scale, at, top));
  }

  triangle(ctx, scale, at, top) {
    ctx.beginPath();
    ctx.moveTo(at, top + 5 * scale);
    ctx.lineTo(at - 4 * scale, top - 3 * scale);
    ctx.lineTo(at + 4 * scale, top - 3 * scale);
    ctx.fill();
  }

  drawShares(frame, one, pulls, first, last, top) {
    const {ctx, scale, left, width} = frame;
    const step = 2 * scale, count = Math.ceil(width / step) + 1;
    const all = new Uint32Array(count), pulled = new Uint32Array(count);
    for (let index = first; index < last; index++) all[Math.floor((frame.x(one.begin[index]) - left) / step)]++;
    for (const at of pulls) pulled[Math.floor((at - left) / step)]++;
    for (let column = 0; column < count; column++) {
      if (!pulled[column]) continue;
      ctx.globalAlpha = pulled[column] / all[column];
      ctx.fillRect(left + column * step, top - 4 * scale, step, 3 * scale);
    }
    ctx.globalAlpha = 1;
  }

  // A tick below the bar: a refused request.
  drawRefusals(frame, refused, top) {
    const {ctx, scale, min, max} = frame;
    let before = -Infinity;
    const last = firstAbove(refused.at, max);
    for (let index = firstAbove(refused.at, min); index < last; index++) {
      if (!this.lit(refused.job[index])) continue;
      const at = frame.x(refused.at[index]);
      if (at - before < 2 * scale) continue;
      before = at;
      ctx.fillStyle = this.colours[refused.job[index]];
      ctx.fillRect(at - scale / 2, top - scale, 1.5 * scale, 5 * scale);
    }
  }

  lit(job) {
    return this.chosen === null || this.chosen === job;
  }

  point() {
    const {left, top} = this.plot.cursor;
    const text = left >= 0 ? this.describe(this.plot.posToVal(left, "x"), left, top) : null;
    this.tip.hidden = text === null;
    if (text === null) return;
    this.tip.textContent = text;
    const x = left + LABELS + 14;
    const room = this.host.clientWidth - this.tip.offsetWidth - 8;
    this.tip.style.left = Math.max(0, Math.min(x, room)) + "px";
    this.tip.style.top = top + 18 + "px";
  }

  describe(at, left, top) {
    const row = this.rows.find((one) => top >= one.top - MARKS && top < one.top + one.height + MARKS);
    if (!row) return null;
    const below = row.refused && top > row.top + row.height - 4;
    if (below) {
      const index = firstAbove(row.refused.at, this.plot.posToVal(left - 3, "x"));
      const near = row.refused.at[index] <= this.plot.posToVal(left + 3, "x");
      if (!near) return null;
      const [name, words] = this.data.reasons[row.refused.reason[index]];
      return `${row.name}, ${this.data.jobs[row.refused.job[index]]}: refused (${name})\n` +
        `at ${seconds(row.refused.at[index])}: ${words}`;
    }
    const number = Math.min(row.lanes.length - 1, Math.max(0, Math.floor((top - row.top) / LANE)));
    const one = row.lanes[number];
    const index = firstAbove(one.end, at);
    if (!(one.begin[index] <= at)) return null;
    const others = row.refused ? row.lanes.filter((other) => other !== one) : [];
    const beside = others.map((other) => [other, firstAbove(other.end, at)])
      .filter(([other, place]) => other.begin[place] <= at)
      .map(([other, place]) => this.data.jobs[other.job[place]]);
    const cause = one.cause ? `\n${this.data.causes[one.cause[index]][1]}` : "";
    return `${row.name}: ${this.data.jobs[one.job[index]]}${beside.length ? `, beside ${beside.join(", ")}` : ""}\n` +
      `from ${seconds(one.begin[index])} for ${seconds(one.end[index] - one.begin[index])}${cause}`;
  }
}
