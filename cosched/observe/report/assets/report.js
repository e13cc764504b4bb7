// Builds the page from its data. Data is inserted as text, never as HTML.
"use strict";

async function unpack() {
  const text = document.getElementById("data").textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function tiles(timeline) {
  const {totals} = timeline;
  const shown = [
    [timeline.nodes.length, "nodes"],
    [timeline.jobs.length, "jobs"],
    [totals.switches.toLocaleString("en"), "times a job was scheduled"],
    [totals.pulled.toLocaleString("en"), "pulled by a message"],
    [totals.refused.toLocaleString("en"), "requests refused"],
  ];
  if (totals.together !== null) shown.push([percent(totals.together), "of the running time on all nodes"]);
  return make("div", {class: "figures"},
    ...shown.map(([value, words]) => make("div", {}, make("b", {}, String(value)), make("span", {}, words))));
}

function timelineSection(timeline, main) {
  const colours = timeline.jobs.map((_, index) => colour(index));
  const host = make("div", {class: "timeline", "aria-label": "timeline"});
  const where = make("output", {id: "view"});
  const legend = timeline.jobs.map((job, index) =>
    make("button", {class: "job", "aria-pressed": "true"}, make("i", {style: `background: ${colours[index]}`}), job));
  const buttons = ["in", "out", "left", "right", "all"].map((words) => make("button", {}, words));
  main.append(make("section", {},
    make("h2", {}, "Which job each node ran"),
    make("p", {}, "Drag to zoom, wheel to zoom, shift and wheel or arrow keys to move, double click for all. " +
      "A triangle: the switch was pulled by a message. A tick below a bar: a message that pulled none."),
    make("div", {class: "bar"}, ...legend, where),
    host,
    make("div", {class: "bar"}, ...buttons)));
  let marked;
  const chart = new Timeline(host, timeline, colours, (min, max, spans) => {
    where.textContent = `${seconds(min)} to ${seconds(max)}: ${spans.toLocaleString("en")} spans`;
    clearTimeout(marked);
    marked = setTimeout(() => history.replaceState(null, "", `#${min.toFixed(6)}-${max.toFixed(6)}`), 200);
  });
  const acts = [() => chart.zoom(0.5), () => chart.zoom(2), () => chart.pan(-0.25), () => chart.pan(0.25),
    () => chart.show(0, chart.length)];
  buttons.forEach((button, index) => button.addEventListener("click", acts[index]));
  legend.forEach((button, index) => button.addEventListener("click", () => {
    chart.choose(index);
    legend.forEach((other, job) => other.setAttribute("aria-pressed", String(chart.lit(job))));
  }));
  const asked = /^#([0-9.]+)-([0-9.]+)$/.exec(location.hash);
  if (asked) chart.show(Number(asked[1]), Number(asked[2]));
  else chart.show(0, chart.length);
}

function jobsSection(timeline) {
  const rows = timeline.per_job.map((job, index) => [
    make("span", {class: "job"}, make("i", {style: `background: ${colour(index)}`}), timeline.jobs[index]),
    job.nodes.length > 4 ? make("span", {title: job.nodes.join(", ")}, `${job.nodes.length}`) : job.nodes.join(", "),
    seconds(job.here_s),
    meter(job.share),
    meter(job.together),
    job.switches.toLocaleString("en"),
    job.pulled.toLocaleString("en"),
    job.refused.toLocaleString("en"),
  ]);
  return make("section", {},
    make("h2", {}, "Jobs"),
    timeline.keyed ? make("p", {}, "The number before the name of a job is the uid of its user.") : null,
    make("p", {}, "Here for: the time with the job on a node, a sum over the runs of its name. " +
      "On all nodes: the time in which the job ran on all its nodes, as a part of the time on any."),
    table(["job", "nodes", "here for", "scheduled", "on all nodes", "spans", "pulled", "refused"], rows));
}

function sizesSection(timeline, main) {
  if (!timeline.sizes.some((one) => one.nodes.some((nodes) => nodes > 1))) return;
  const steps = timeline.sizes.map((one) => {
    let at = 0;
    return one.at.map((by, index) => [(at += by) / 1e6, one.nodes[index]]);
  });
  const times = [...new Set(steps.flat().map(([at]) => at))].sort((one, other) => one - other);
  const rows = steps.map((one) => {
    let next = 0;
    let nodes = 0;
    return times.map((at) => {
      while (next < one.length && one[next][0] <= at) nodes = one[next++][1];
      return nodes;
    });
  });
  const host = make("div", {class: "sizes"});
  const names = timeline.jobs.map((job, index) =>
    make("span", {class: "job"}, make("i", {style: `background: ${colour(index)}`}), job));
  main.append(make("section", {},
    make("h2", {}, "Nodes of each job"),
    make("p", {}, "The number of nodes on which the job had tasks."),
    make("div", {class: "bar"}, ...names), host));
  const soft = () => style("--soft");
  const paths = uPlot.paths.stepped({align: 1});
  const chart = new uPlot({
    width: host.clientWidth, height: 210, legend: {show: false},
    cursor: {drag: {x: false, y: false}, points: {show: false}},
    scales: {x: {time: false}, y: {range: (_, low, high) => [0, high + 0.5]}},
    series: [{}, ...rows.map((_, index) => ({paths, points: {show: false}, stroke: () => colour(index), width: 2}))],
    axes: [
      {stroke: soft, grid: {show: false}, ticks: {show: false}, size: 30,
       values: (_, splits) => splits.map((at) => `${Number(at.toFixed(6))} s`)},
      {stroke: soft, grid: {stroke: () => style("--line")}, ticks: {show: false}, size: 52, incrs: [1, 2, 5, 10, 50, 100, 1000]},
    ],
  }, [times, ...rows], host);
  new ResizeObserver(() => chart.setSize({width: host.clientWidth, height: 210})).observe(host);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
}

// Each job's time here beside its time alone: the darker part of a bar.
function responsesSection(timeline) {
  const most = Math.max(...timeline.per_job.map((job) => job.here_s));
  const grid = make("div", {class: "arms responses"});
  timeline.per_job.forEach((job, index) => {
    const track = make("div", {class: "track"},
      make("i", {class: "all", style: `width: ${(job.here_s / most) * 98}%; background: ${colour(index)}`}),
      make("i", {style: `width: ${(job.alone_s / most) * 98}%; background: ${colour(index)}`}));
    const times = job.alone_s > 0 ? `: ${(job.here_s / job.alone_s).toFixed(1)} times` : "";
    grid.append(make("div", {}, timeline.jobs[index]), track,
      make("div", {class: "value"}, `${seconds(job.here_s)}, alone about ${seconds(job.alone_s)}${times}`));
  });
  return make("section", {},
    make("h2", {}, "How long each job was here, and would be alone"),
    make("p", {}, "Sums over the runs of each name. " +
      "Dark: the time in which it was scheduled on the node that ran it longest. Light: it waited for its turn."),
    grid);
}

function arms(bench, key, index) {
  const most = Math.max(...bench.arms.flatMap((arm) => [arm[key] || 0, ...arm.runs.map((run) => run[index])]));
  const bound = bench.arms.find((arm) => arm.name === "bound" && arm[key] !== null);
  const grid = make("div", {class: "arms"});
  for (const arm of bench.arms) {
    const track = make("div", {class: "track"});
    if (arm[key] !== null) track.append(make("i", {style: `width: ${(arm[key] / most) * 98}%`}));
    for (const run of arm.runs)
      track.append(make("u", {class: run[2] ? "" : "left-out", style: `left: ${(run[index] / most) * 98}%`,
        title: `${run[index].toFixed(2)} s`}));
    if (bound) track.append(make("b", {style: `left: ${(bound[key] / most) * 98}%`}));
    const value = arm[key] === null ? "no run succeeded" : `${arm[key].toFixed(2)} s`;
    grid.append(make("div", {}, arm.name), track, make("div", {class: "value"}, value));
  }
  return grid;
}

const TIMES = (value) => typeof value === "number" ? value.toFixed(2) : "-";

function benchSection(bench) {
  const names = bench.arms.map((arm) => arm.name);
  const jobs = (bench.arms.find((arm) => arm.jobs.length) || {jobs: []}).jobs.map(([name]) => name);
  const isKnown = jobs.some((name) => name in bench.alone_s);
  const alone = (name) => isKnown ? [name in bench.alone_s ? bench.alone_s[name].toFixed(2) : "-"] : [];
  const rows = jobs.map((name, index) => [name, ...alone(name), ...bench.arms.map((arm) => arm.jobs[index] ? arm.jobs[index][1].toFixed(2) : "-")]);
  const level = bench.level_ratios || {};
  const ratios = Object.entries(bench.ratios).map(([name, ratio]) => [name, ...["mean_response", "makespan"].map((key) =>
    ratio[key].toFixed(2) + (level[name] ? ` (${level[name][key].toFixed(2)})` : "")),
    TIMES(ratio.mean_slowdown), TIMES(ratio.worst_slowdown)]);
  const slowdowns = bench.arms.filter((arm) => typeof arm.mean_slowdown === "number")
    .map((arm) => [arm.name, TIMES(arm.mean_slowdown), TIMES(arm.worst_slowdown)]);
  return make("section", bench.void.length ? {class: "disturbed"} : {},
    make("h2", {}, bench.title),
    bench.about ? make("p", {}, bench.about) : null,
    bench.void.length ? make("p", {class: "void"}, `No conclusion: every run of ${bench.void.join(", ")} was disturbed. ` +
      "Other programs kept the nodes' CPUs busy. Measure again on a quiet machine.") : null,
    bench.facts.length ? make("dl", {class: "facts"}, ...bench.facts.flatMap(([name, text]) =>
      [make("dt", {}, name), make("dd", {}, text)])) : null,
    make("p", {}, "Bars: medians over the runs that count. Dots: single runs; hollow ones were disturbed or left out." +
      (names.includes("bound") ? " Line: the bound, which no schedule can beat." : "")),
    make("h2", {}, "Mean response"), arms(bench, "mean_response_s", 0),
    make("h2", {}, "Makespan"), arms(bench, "makespan_s", 1),
    ratios.length ? make("h2", {}, "Ratios") : null,
    ratios.length ? table([bench.level_ratios ? "of medians (at equal speed of the machine)" : "of medians",
      "mean response", "makespan", "mean slowdown", "worst slowdown"], ratios) : null,
    slowdowns.length ? make("h2", {style: "margin-top: 16px"}, "Slowdown") : null,
    slowdowns.length ? table(["times its time alone", "mean", "worst"], slowdowns) : null,
    rows.length ? make("h2", {style: "margin-top: 16px"}, "Response of each job, s") : null,
    rows.length ? table(["job", ...(isKnown ? ["alone"] : []), ...names], rows) : null);
}

async function build() {
  const data = await unpack();
  const main = document.querySelector("main");
  const {timeline} = data;
  if (timeline) {
    document.getElementById("about").textContent =
      `The first job began on ${timeline.begin}. The time shown is ${seconds(timeline.length_us / 1e6)}.`;
    main.append(tiles(timeline));
    timelineSection(timeline, main);
    sizesSection(timeline, main);
    main.append(jobsSection(timeline));
    if (timeline.jobs.length) main.append(responsesSection(timeline));
  }
  for (const bench of data.benches) main.append(benchSection(bench));
  for (const sim of data.simulations) simSection(sim, main);
  document.body.dataset.state = "drawn";
}

build().catch((error) => {
  document.body.dataset.state = "failed";
  document.querySelector("main").append(make("section", {}, `This report cannot be drawn: ${error.message}`));
});
