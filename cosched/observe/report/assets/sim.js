// Draws simulated queues: utilisation over time, and how long jobs waited.
"use strict";

const DAY_S = 86400;

function lasting(value) {
  if (value >= 2 * DAY_S) return `${+(value / DAY_S).toPrecision(3)} d`;
  if (value >= 7200) return `${+(value / 3600).toPrecision(3)} h`;
  if (value >= 120) return `${+(value / 60).toPrecision(3)} min`;
  return `${+value.toPrecision(3)} s`;
}

// A chart of one line a run. xs: the places; rows: the values of each run.
function curves(host, xs, rows, {height = 230, stepped = false, log = false, across, up}) {
  const soft = () => style("--soft");
  const paths = stepped ? uPlot.paths.stepped({align: 1}) : uPlot.paths.linear();
  const most = Math.max(...rows.flat());
  const y = log ? {distr: 3, range: [1, Math.max(10, most * 1.1)]} : {range: [0, 1.02]};
  const chart = new uPlot({
    width: host.clientWidth, height, legend: {show: false},
    cursor: {drag: {x: false, y: false}, points: {show: false}},
    scales: {x: {time: false}, y},
    series: [{}, ...rows.map((_, index) => ({paths, points: {show: false}, stroke: () => colour(index), width: 2}))],
    axes: [
      {stroke: soft, grid: {show: false}, ticks: {show: false}, size: 30, values: (_, splits) => splits.map(across)},
      {stroke: soft, grid: {stroke: () => style("--line")}, ticks: {show: false}, size: 64,
       values: (_, splits) => splits.map((value) => value === null ? "" : up(value))},
    ],
  }, [xs, ...rows], host);
  new ResizeObserver(() => chart.setSize({width: host.clientWidth, height})).observe(host);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
}

function simSection(sim, main) {
  const names = sim.runs.map((run, index) =>
    make("span", {class: "job"}, make("i", {style: `background: ${colour(index)}`}), run.name));
  const [used, waits] = [make("div", {class: "used"}), make("div", {class: "waits"})];
  const shown = (value, index) => index < 3 ? lasting(value) : index === 3 ? value.toFixed(1) : percent(value);
  main.append(make("section", {},
    make("h2", {}, sim.title),
    make("p", {}, sim.about),
    make("dl", {class: "facts"}, ...sim.facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)])),
    table(["run", ...sim.headings], sim.runs.map((run) => [run.name, ...run.figures.map(shown)])),
    make("h2", {style: "margin-top: 16px"}, "Utilisation over time"),
    make("p", {}, "The part of the nodes that jobs had, from the first submission on."),
    make("div", {class: "bar"}, ...names), used,
    make("h2", {style: "margin-top: 16px"}, "Waits of the jobs"),
    make("p", {}, "At 50%: half of the jobs waited at most so long. Waits below 1 s count as 1 s."),
    make("div", {class: "bar"}, ...names.map((name) => name.cloneNode(true))), waits));
  const most = sim.runs.reduce((one, other) => one.step_s >= other.step_s ? one : other);
  const times = most.used.map((_, index) => index * most.step_s);
  const rows = sim.runs.map((run) => times.map((at) => run.used[Math.floor(at / run.step_s)] ?? 0));
  curves(used, times, rows, {stepped: true, across: lasting, up: (value) => `${Math.round(value * 100)}%`});
  const parts = sim.runs[0].waits_s.map((_, index) => index);
  curves(waits, parts, sim.runs.map((run) => run.waits_s.map((wait) => Math.max(1, wait))),
    {log: true, across: (value) => `${value}%`, up: lasting});
}
