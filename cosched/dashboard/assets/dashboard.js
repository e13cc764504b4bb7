// Puts the page together: tiles, charts, tables, the answer to why, and the keys.
"use strict";

const element = (id) => document.getElementById(id);
const TICK_MS = 1000;

// The colour of a job: neighbours in the queue differ.
function jobColour(id) {
  let number = Number(id);
  if (!(number >= 0)) number = [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 65521, 7);
  return PALETTE[number % PALETTE.length];
}

class Why {
  constructor(feed) {
    this.feed = feed;
    this.dialog = element("why");
    element("again").addEventListener("click", () => this.ask());
    this.dialog.addEventListener("close", () => { this.id = null; });
  }

  show(id) {
    this.id = id;
    const job = this.feed.jobs.get(id);
    element("why-title").textContent = job ? named(id, job) : id;
    this.write("asking …", null);
    if (!this.dialog.open) this.dialog.showModal();
    this.ask();
  }

  async ask() {
    const id = this.id;
    if (id === null) return;
    try {
      const answer = await fetch(`why?job=${encodeURIComponent(id)}`);
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const found = await answer.json();
      if (id === this.id) this.write(found.text, found.job);
    } catch (error) {
      if (id === this.id) this.write(error instanceof TypeError ? "cosched dashboard does not answer" : error.message, null);
    }
  }

  write(text, job) {
    this.dialog.querySelector("pre").textContent = text;
    const facts = [];
    const row = this.feed.jobs.get(this.id);
    if (row) facts.push(["state", row.state], ["user", row.user]);
    if (row && row.nodes.length) facts.push(["nodes", row.nodes.join(", ")]);
    if (job) facts.push(["program", job.command.join(" ")], ["directory", job.cwd], ["limit", job.time_ns === null ? "none" : lasting(job.time_ns / 1e9)]);
    this.dialog.querySelector("dl").replaceChildren(...facts.flatMap(([name, words]) =>
      [make("dt", {}, name), make("dd", {}, words)]));
  }
}

function domainState(domain, now) {
  if (domain.state === "down") return `✕ has not answered for ${lasting(now - domain.down_since_ms / 1000)}`;
  return domain.state === "up" ? "✓ answers" : "was asked nothing yet";
}

function pairCounts(domain) {
  if (!domain.waiting && !domain.running) return "no job here has a mate there";
  return `jobs here with a mate there: ${domain.waiting} waiting, ${domain.running} running`;
}

function named(id, job) {
  return job.number === null ? job.name : `${job.number} ${job.name}`;
}

class Dashboard {
  constructor() {
    this.feed = new Feed((news) => this.take(news), (line) => this.fail(line));
    this.why = new Why(this.feed);
    const explain = (id) => this.why.show(id);
    this.lit = null;
    const look = {
      colour: jobColour,
      name: (id) => { const job = this.feed.jobs.get(id); return job ? named(id, job) : id; },
      lit: () => true,
      now: () => this.feed.now,
    };
    this.lanes = new NodeLanes(this.feed, look);
    this.bars = new JobBars(this.feed, look);
    this.queue = new Queue(this.feed, explain);
    this.queue.onChange = () => this.drawJobs();
    for (const one of [this.lanes, this.bars]) one.explain = explain;
    this.lanes.most = () => Math.max(220, Math.min(620, innerHeight * 0.6));
    this.bars.most = () => Math.max(220, Math.min(440, innerHeight * 0.5));
    this.pairs = new KeyedTable(document.querySelector("#pairs tbody"), ["chosen", "", "wide", "", "", "reason"], explain);
    this.health = new KeyedTable(document.querySelector("#health tbody"),
      ["", "", "", "", "wide", "wide", "wide", "", "wide", "reason"], null);
    element("pause").addEventListener("click", () => this.pause());
    element("keys").addEventListener("click", () => element("help").showModal());
    document.addEventListener("keydown", (event) => this.press(event));
    this.feed.ask();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setInterval(() => this.tick(), TICK_MS);
  }

  take(news) {
    this.say(news);
    element("troubles").replaceChildren(...news.troubles.map((line) => make("p", {}, line)));
    element("empty").hidden = news.daemons_up || news.domain !== null;
    for (const id of ["nodes", "jobs", "queue", "health"]) element(id).hidden = !element("empty").hidden;
    this.drawTotals(news.totals);
    this.lanes.take();
    this.queue.take();
    this.drawJobs();
    this.drawNodes();
    this.drawPairs();
    this.drawHealth();
    document.body.dataset.state = "drawn";
  }

  fail(line) {
    element("live").textContent = "✕ no news";
    element("troubles").replaceChildren(make("p", {}, line));
    document.body.dataset.state = "failed";
  }

  say(news) {
    element("live").textContent = this.feed.paused ? "⏸ paused" : `● live, every ${news.interval_s} s`;
    const parts = [];
    if (news.domain) parts.push(`domain in ${news.domain}`);
    parts.push(news.daemons_up ? `daemons on ${nodes(news.totals.daemons)} of this machine` : "no daemons on this machine");
    element("about").textContent = parts.join("; ");
    document.title = `${news.totals.running} running, ${news.totals.waiting} waiting: cosched`;
  }

  drawTotals(totals) {
    const tiles = [[`${totals.nodes_up} of ${totals.nodes}`, "nodes up"], [totals.running, "jobs run"], [totals.waiting, "jobs wait"]];
    if (totals.switches_rate !== null) tiles.push([totals.switches_rate.toLocaleString("en"), "switches/s"]);
    if (totals.agreement !== null) tiles.push([percent(totals.agreement), "nodes agree"]);
    element("totals").replaceChildren(...tiles.map(([value, words]) =>
      make("div", {}, make("b", {}, String(value)), make("span", {}, words))));
  }

  drawNodes() {
    if (element("nodes").hidden || !this.lanes.rows()) return;
    if (!this.nodeChart) this.nodeChart = this.chart("nodes", this.lanes);
    this.nodeChart.update();
  }

  drawJobs() {
    this.bars.take(this.queue.ids, !this.jobChart || this.jobChart.follows);
    if (element("jobs").hidden) return;
    if (!this.jobChart) this.jobChart = this.chart("jobs", this.bars);
    this.jobChart.update();
  }

  chart(id, look) {
    const chart = new RowChart(document.querySelector(`#${id} .host`), look);
    chart.follow();
    return chart;
  }

  // The other domains, and jobs with mates: those that wait for them, then those that run.
  drawPairs() {
    const {feed} = this;
    const rows = [...feed.mates].map(([id, mate]) => [id, [id, mate.group, mate.user, String(mate.nodes),
      mate.held ? "⏸ holds its nodes" : `◷ ${mate.state}`, mate.why]]);
    for (const [id, job] of feed.jobs)
      if (RUNS.has(job.state) && job.mates && !feed.mates.has(id))
        rows.push([id, [id, "", job.user, String(job.node_count), `${SIGNS[job.state]} ${job.state}`, job.mates]]);
    element("pairs").hidden = !rows.length && !feed.domains.size;
    element("pairs-about").hidden = !rows.length;
    this.pairs.table.hidden = !rows.length;
    this.pairs.show(rows);
    element("domains").replaceChildren(...[...feed.domains].map(([name, domain]) =>
      make("li", {}, make("b", {}, name), ` ${domainState(domain, feed.now)}; ${pairCounts(domain)}`)));
  }

  drawHealth() {
    const {feed} = this;
    const jobs = new Map();
    for (const job of feed.jobs.values())
      if (RUNS.has(job.state)) for (const node of new Set(job.nodes)) jobs.set(node, (jobs.get(node) || 0) + 1);
    const rows = this.lanes.nodes.map((name) => {
      const node = feed.nodes.get(name), daemon = feed.daemons.get(name);
      const note = [node.reason, ...(daemon ? daemon.warnings : [])].filter(Boolean).join("; ");
      const shown = node.state === "up" ? "✓ up" : `✕ ${node.state}`;
      const slots = node.slots === null ? "" : `, ${counted(node.slots, "slot")}`;
      if (!daemon) return [name, [name, shown, `${jobs.get(name) || 0}${slots}`, "none here", "-", "-", "-", "-", "-", note]];
      const state = daemon.timer_up ? `✓ up for ${lasting(feed.now - daemon.up_since_ms / 1000)}` : "✕ no timer daemon";
      return [name, [name, shown, `${jobs.get(name) || 0}${slots}`, state, `${daemon.slice}, ${daemon.gmet}`,
        String(daemon.switches_rate ?? "-"), String(daemon.refused_rate ?? "-"),
        daemon.cpu === null ? "-" : percent(daemon.cpu), `${(daemon.late_max_us / 1000).toFixed(1)} ms late`, note]];
    });
    this.health.show(rows);
    const bad = [...feed.nodes.values()].filter((node) => node.state !== "up").length;
    const ill = [...feed.daemons.values()].filter((daemon) => !daemon.timer_up || daemon.warnings.length).length;
    element("health-sum").textContent = bad + ill ? `${nodes(bad)} not up; ${nodes(ill)} with warnings` : "All are well.";
  }

  tick() {
    if (document.hidden || this.feed.paused || !this.feed.version) return;
    for (const chart of [this.nodeChart, this.jobChart]) if (chart && chart.follows) chart.update();
  }

  pause() {
    this.feed.pause(!this.feed.paused);
    element("pause").setAttribute("aria-pressed", String(this.feed.paused));
    element("pause").textContent = this.feed.paused ? "Go on" : "Pause";
    if (this.feed.paused) element("live").textContent = "⏸ paused";
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    const opened = document.querySelector("dialog[open]");
    const keys = {
      p: () => this.pause(), "?": () => opened || element("help").showModal(),
      "/": () => opened || element("search").focus(), r: () => opened && this.why.ask(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}

const dashboard = new Dashboard();
