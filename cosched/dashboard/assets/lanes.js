// Draws the rows of nodes: a lane for each job that is on the node at the same time.
"use strict";

const PALE = 0.26, LANE_LEAST = 3, LANE_MOST = 22, ROW_LEAST = 15;
// The seconds of the past that the page shows at first.
const VIEW_S = 90;

// Paints one stay of a job in a lane: pale while it waits for its turn, full while it runs.
// spans: the job's spans there; undefined: nothing makes it wait there.
function paintStay(frame, stay, spans, top, height, look) {
  const {ctx, scale, min, max} = frame;
  if (stay.end <= min || stay.begin >= max) return;
  const from = frame.x(Math.max(stay.begin, min)), to = frame.x(Math.min(stay.end, max));
  fillSpan(ctx, look, stay.job, from, top, Math.max(scale, to - from), height, spans ? PALE : 1);
  const named = height >= 11 * scale;
  if (!spans) {
    if (named) nameSpan(ctx, scale, look.name(stay.job), from, top + height / 2, to - from);
    return;
  }
  const drawn = named ? look : {...look, name: () => ""};
  paintSpans(frame, spans, top, height, drawn);
  if (spans.running === null) return;
  const begin = frame.x(Math.max(spans.running, min)), end = frame.x(Math.min(look.now(), max));
  if (end <= begin) return;
  fillSpan(ctx, look, stay.job, begin, top, end - begin, height);
  if (named) nameSpan(ctx, scale, look.name(stay.job), begin, top + height / 2, end - begin);
}

class NodeLanes {
  constructor(feed, look) {
    this.feed = feed;
    this.look = look;
    this.nodes = [];
    this.lanes = new Map();
    this.words = "which jobs each node has; arrow keys move, Enter explains";
  }

  // Places the jobs of each node in lanes. Jobs that were there at the same time differ.
  take() {
    const {feed} = this;
    this.nodes = [...feed.nodes.keys()].sort(byName);
    const now = feed.now, oldest = now - KEEP_S;
    const stays = new Map(this.nodes.map((node) => [node, []]));
    for (const [id, job] of feed.jobs) {
      if (job.began_ms === null || !job.nodes.length) continue;
      const end = job.ended_ms === null ? Infinity : job.ended_ms / 1000;
      if (end < oldest) continue;
      job.nodes.forEach((node, index) => {
        const half = job.halves[index];
        if (stays.has(node) && (half || job.nodes.indexOf(node) === index))
          stays.get(node).push({job: id, begin: job.began_ms / 1000, end, half});
      });
    }
    this.lanes = new Map([...stays].map(([node, found]) => [node, inLanes(found)]));
    this.deepest = Math.max(1, ...[...this.lanes.values()].map((one) => one.count));
  }

  rows() { return this.nodes.length; }

  height() {
    const wanted = this.nodes.length > 20 ? 2 + 6 * this.deepest : 6 + LANE_MOST * Math.min(this.deepest, 4);
    return Math.max(ROW_LEAST, Math.min(100, Math.max(wanted, 2 + LANE_LEAST * this.deepest)));
  }

  label(row) {
    const name = this.nodes[row], node = this.feed.nodes.get(name);
    return node.state === "up" ? name : `${name} (${node.state})`;
  }

  range() {
    return [this.feed.now - VIEW_S, this.feed.now + VIEW_S / 60];
  }

  now() { return this.feed.now; }

  paint(frame, row, top) {
    const {ctx, scale, left, right} = frame;
    const node = this.nodes[row], {stays, count} = this.lanes.get(node);
    const gap = this.height() > 24 ? 3 : 1;
    ctx.fillStyle = frame.ink.empty;
    ctx.fillRect(left, top + scale * gap / 2, right - left, frame.height - scale * gap);
    const step = (frame.height - scale * gap) / Math.max(1, count);
    const spansOn = this.feed.spans.get(node);
    for (const stay of stays) {
      const spans = this.spans(node, spansOn, stay.job);
      const shown = {...stay, end: Math.min(stay.end, this.feed.now)};
      const seam = step > 5 * scale ? scale : 0;
      const at = top + scale * gap / 2 + stay.lane * step;
      paintStay(frame, shown, spans, at, stay.tall * step - seam, this.look);
    }
  }

  // Returns the spans of a job; undefined where no daemon makes it wait.
  spans(node, spansOn, job) {
    const spans = spansOn && spansOn.get(job);
    if (spans || !this.feed.daemons.has(node) || !this.feed.live.has(job)) return spans;
    return NONE;
  }

  stay(row, at, inRow) {
    const {stays, count} = this.lanes.get(this.nodes[row]);
    const here = stays.filter((stay) => stay.begin <= at && Math.min(stay.end, this.feed.now) >= at);
    if (inRow === undefined) return here[0];
    const lane = Math.floor(inRow * count);
    return here.find((stay) => stay.lane <= lane && lane < stay.lane + stay.tall);
  }

  describe(row, at, inRow) {
    const node = this.nodes[row], stay = this.stay(row, Math.min(at, this.feed.now), inRow);
    if (!stay) return inRow === undefined ? `${this.label(row)}: no job` : null;
    const spans = this.spans(node, this.feed.spans.get(node), stay.job);
    const runs = spans === undefined || isOn(spans, at);
    return `${node}: ${this.look.name(stay.job)} ${runs ? "runs" : "waits for its turn"}${this.place(row, stay, at)}\n` +
      `there for ${lasting(Math.min(stay.end, this.feed.now) - stay.begin)}, since ${clock(stay.begin)}`;
  }

  // Returns the half that a job has, and the job on the other one at this time.
  place(row, stay, at) {
    if (!stay.half) return "";
    const time = Math.min(at, this.feed.now);
    const other = this.lanes.get(this.nodes[row]).stays.find((one) => one.half && one.half !== stay.half &&
      one.begin <= time && Math.min(one.end, this.feed.now) >= time);
    return ` on the ${stay.half} half, beside ${other ? this.look.name(other.job) : "no job"}`;
  }

  job(row, at, inRow) {
    const stay = this.stay(row, Math.min(at, this.feed.now), inRow);
    return stay ? stay.job : null;
  }
}

const NONE = {begin: [], end: [], job: [], running: null};

// Returns whether the job had the CPUs at a time.
function isOn(spans, at) {
  if (spans.running !== null && at >= spans.running) return true;
  const index = firstAbove(spans.end, at);
  return index < spans.begin.length && spans.begin[index] <= at;
}

const HALVES = ["top", "bottom"];

// Returns stays with the lowest lane that is free, and the number of lanes. On a node with
// halves the top one has the upper lane, and a job on the whole node has both.
function inLanes(stays) {
  if (stays.some((stay) => stay.half)) {
    for (const stay of stays) {
      stay.lane = stay.half ? HALVES.indexOf(stay.half) : 0;
      stay.tall = stay.half ? 1 : HALVES.length;
    }
    return {stays, count: HALVES.length};
  }
  stays.sort((one, other) => one.begin - other.begin || byName(one.job, other.job));
  const ends = [];
  for (const stay of stays) {
    let lane = ends.findIndex((end) => end <= stay.begin);
    if (lane < 0) lane = ends.length;
    ends[lane] = stay.end;
    stay.lane = lane;
    stay.tall = 1;
  }
  return {stays, count: ends.length};
}

const NUMBERS_IN_ORDER = new Intl.Collator("en", {numeric: true});

function byName(one, other) {
  return NUMBERS_IN_ORDER.compare(one, other);
}

function clock(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

// Returns a duration in two units at most.
function lasting(value) {
  const whole = Math.max(0, Math.round(value));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  const hours = Math.floor(whole / 3600);
  return hours < 48 ? `${hours} h ${String(Math.floor(whole / 60) % 60).padStart(2, "0")} min`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
