// Draws simulated queues: utilisation over time, and how long jobs waited.
"use strict";

const [MINUTE_S, HOUR_S, DAY_S] = [60, 3600, 86400];
const SPANS = [MINUTE_S, 5 * MINUTE_S, 15 * MINUTE_S, HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S,
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * DAY_S)];
const WAITS = [1, 10, MINUTE_S, 10 * MINUTE_S, HOUR_S, 10 * HOUR_S, ...[1, 10, 100, 1000].map((days) => days * DAY_S)];

function lasting(value) {
  if (value >= DAY_S) return `${+(value / DAY_S).toPrecision(3)} d`;
  if (value >= HOUR_S) return `${+(value / HOUR_S).toPrecision(3)} h`;
  if (value >= MINUTE_S) return `${+(value / MINUTE_S).toPrecision(3)} min`;
  return `${+value.toPrecision(3)} s`;
}

// A chart in ``host`` that follows its width and the colours of the browser.
function plot(host, height, {scales, series, across, up}, data) {
  const soft = () => style("--soft");
  const chart = new uPlot({
    width: host.clientWidth, height, legend: {show: false},
    cursor: {drag: {x: false, y: false}, points: {show: false}}, scales, series: [{}, ...series],
    axes: [
      {stroke: soft, grid: {show: false}, ticks: {show: false}, size: 30, ...across},
      {stroke: soft, grid: {stroke: () => style("--line"), width: 1}, ticks: {show: false}, size: 64, ...up},
    ],
  }, data, host);
  new ResizeObserver(() => chart.setSize({width: host.clientWidth, height})).observe(host);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
}

// One run: the part of the nodes that jobs had. end: of the longest run.
function usedChart(host, run, index, end) {
  const times = run.used.map((_, at) => at * run.step_s);
  plot(host, 110, {
    scales: {x: {time: false, range: [0, end]}, y: {range: [0, 1]}},
    series: [{paths: uPlot.paths.stepped({align: 1}), points: {show: false}, width: 1.5,
      stroke: () => colour(index), fill: () => `${colour(index)}55`}],
    across: {incrs: SPANS, values: (_, splits) => splits.map(lasting)},
    up: {splits: () => [0, 0.5, 1], values: (_, splits) => splits.map((value) => `${value * 100}%`)},
  }, [[...times, times.length * run.step_s], [...run.used, 0]]);
}

function waitsChart(host, runs) {
  const most = Math.max(10, ...runs.map((run) => run.waits_s.at(-1)));
  plot(host, 260, {
    scales: {x: {time: false}, y: {distr: 3, range: [1, most * 1.2]}},
    series: runs.map((_, index) => ({points: {show: false}, stroke: () => colour(index), width: 2})),
    across: {values: (_, splits) => splits.map((value) => `${value}%`)},
    up: {splits: () => WAITS.filter((wait) => wait <= most), filter: (_, splits) => splits,
      values: (_, splits) => splits.map(lasting)},
  }, [runs[0].waits_s.map((_, index) => index), ...runs.map((run) => run.waits_s.map((wait) => Math.max(1, wait)))]);
}

function simSection(sim, main) {
  const name = (run, index) =>
    make("span", {class: "job"}, make("i", {style: `background: ${colour(index)}`}), run.name);
  const used = sim.runs.map(() => make("div", {class: "used"}));
  const waits = make("div", {class: "waits"});
  const shown = (value, index) => index < 3 ? lasting(value) : index === 3 ? value.toFixed(1) : percent(value);
  main.append(make("section", {},
    make("h2", {}, sim.title),
    make("p", {}, sim.about),
    make("dl", {class: "facts"}, ...sim.facts.flatMap(([title, text]) => [make("dt", {}, title), make("dd", {}, text)])),
    table(["run", ...sim.headings], sim.runs.map((run) => [run.name, ...run.figures.map(shown)])),
    make("h2", {style: "margin-top: 16px"}, "Utilisation over time"),
    make("p", {}, "The part of the nodes that jobs had, from the first submission on."),
    ...sim.runs.flatMap((run, index) => [make("div", {class: "bar"}, name(run, index)), used[index]]),
    make("h2", {style: "margin-top: 16px"}, "Waits of the jobs"),
    make("p", {}, "At 50%: half of the jobs waited at most so long. Waits below 1 s count as 1 s."),
    make("div", {class: "bar"}, ...sim.runs.map(name)), waits));
  const end = Math.max(...sim.runs.map((run) => run.used.length * run.step_s));
  sim.runs.forEach((run, index) => usedChart(used[index], run, index, end));
  waitsChart(waits, sim.runs);
}
