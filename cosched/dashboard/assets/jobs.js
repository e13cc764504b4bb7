// Draws the rows of jobs, as a Gantt chart: how long each waited, was on its nodes, and ran
// there.
"use strict";

const STRIPS_MOST = 6, JOB_ROW = 20, PAST_LEAST_S = 60, PAST_MOST_S = 1800;
const WAITS = new Set(["held", "queued"]), RUNS = new Set(["starting", "running"]);
const GOOD_ENDS = new Set(["done", "ended"]);

class JobBars {
  constructor(feed, look) {
    this.feed = feed;
    this.look = look;
    this.ids = [];
    this.words = "jobs over time; arrow keys move, Enter explains";
  }

  // ids: the jobs in their order in the queue. follows: only those that the present range shows
  // have rows, unless that is none.
  take(ids, follows) {
    const first = follows ? this.range()[0] : 0, {jobs} = this.feed;
    const shown = ids.filter((id) => (jobs.get(id)?.ended_ms ?? Infinity) >= first * 1000);
    this.ids = shown.length ? shown : ids;
  }

  rows() { return this.ids.length; }

  height() { return JOB_ROW; }

  label(row) {
    return this.look.name(this.ids[row]);
  }

  now() { return this.feed.now; }

  // From the first job that runs or has just ended, to the last start that is expected soon.
  range() {
    const {now, jobs, starts} = this.feed;
    let first = now - PAST_LEAST_S, last = now + PAST_LEAST_S / 4;
    for (const job of jobs.values())
      if (job.began_ms !== null && (job.ended_ms === null || job.ended_ms / 1000 > now - PAST_MOST_S / 6))
        first = Math.min(first, Math.max(now - PAST_MOST_S, job.began_ms / 1000));
    for (const ms of starts.values()) last = Math.max(last, Math.min(ms / 1000, now + (now - first) / 2));
    const margin = (last - first) / 40;
    return [first - margin, last + margin];
  }

  paint(frame, row, top) {
    const {ctx, scale} = frame, id = this.ids[row], job = this.feed.jobs.get(id);
    if (!job) return;
    const began = job.began_ms === null ? null : job.began_ms / 1000;
    this.paintWait(frame, id, job.submitted_ms / 1000, began ?? (job.ended_ms === null ? this.feed.now : job.ended_ms / 1000), top);
    const barTop = top + 3 * scale, height = frame.height - 6 * scale;
    if (began === null) {
      if (this.feed.starts.has(id)) this.paintExpected(frame, id, this.feed.starts.get(id) / 1000, frame.max, barTop, height);
      return;
    }
    const end = job.ended_ms === null ? this.feed.now : job.ended_ms / 1000;
    this.paintStrips(frame, id, job, {job: id, begin: began, end}, barTop, height);
    if (job.ended_ms !== null && !GOOD_ENDS.has(job.state)) this.cross(frame, end, barTop, height);
    const left = this.left(id);
    if (left > 0) this.paintExpected(frame, id, this.feed.now, this.feed.now + left, barTop, height);
  }

  // A strip for each node, so that it shows whether the nodes agree.
  paintStrips(frame, id, job, stay, top, height) {
    const found = job.nodes.map((node) => (this.feed.spans.get(node) || new Map()).get(id)).filter(Boolean);
    const strips = found.slice(0, STRIPS_MOST);
    if (!strips.length) {
      const live = this.feed.live.has(id) && job.ended_ms === null;
      paintStay(frame, stay, live ? NONE : undefined, top, height, {...this.look, name: () => ""});
      return;
    }
    const step = height / strips.length;
    strips.forEach((spans, index) =>
      paintStay(frame, stay, spans, top + index * step, step, {...this.look, name: () => ""}));
  }

  // How much longer a job runs, at its present share; 0 if nothing is known.
  left(id) {
    const live = this.feed.live.get(id);
    if (!live || live.expected_s === null || !live.scheduled) return 0;
    return Math.max(0, live.expected_s - live.ran_s) / live.scheduled;
  }

  paintWait(frame, id, from, to, top) {
    const {ctx, scale} = frame;
    const left = frame.x(Math.max(from, frame.min)), right = frame.x(Math.min(to, frame.max));
    if (right <= left) return;
    ctx.globalAlpha = this.look.lit(id) ? 0.8 : 0.15;
    ctx.fillStyle = this.look.colour(id);
    ctx.fillRect(left, top + frame.height / 2 - scale, right - left, 2 * scale);
    ctx.globalAlpha = 1;
  }

  paintExpected(frame, id, from, to, top, height) {
    const {ctx, scale} = frame;
    if (to <= frame.min || from >= frame.max) return;
    const left = frame.x(Math.max(from, frame.min)), right = frame.x(Math.min(to, frame.max));
    ctx.globalAlpha = this.look.lit(id) ? 0.8 : 0.15;
    ctx.strokeStyle = this.look.colour(id);
    ctx.lineWidth = 1.5 * scale;
    ctx.setLineDash([4 * scale, 3 * scale]);
    ctx.strokeRect(left, top + scale, Math.max(2 * scale, right - left), height - 2 * scale);
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  }

  // Marks a job that did not end well.
  cross(frame, at, top, height) {
    const {ctx, scale} = frame, x = frame.x(at) + 8 * scale, y = top + height / 2, arm = 4 * scale;
    ctx.strokeStyle = frame.ink.text;
    ctx.lineWidth = 2 * scale;
    ctx.beginPath();
    ctx.moveTo(x - arm, y - arm);
    ctx.lineTo(x + arm, y + arm);
    ctx.moveTo(x + arm, y - arm);
    ctx.lineTo(x - arm, y + arm);
    ctx.stroke();
  }

  describe(row) {
    const id = this.ids[row], job = this.feed.jobs.get(id);
    if (!job) return null;
    const lines = [`${this.look.name(id)}: ${job.state}${job.nodes.length ? " on " + hosts(job.nodes) + beside(job) : ""}`];
    const began = job.began_ms === null ? null : job.began_ms / 1000;
    const end = job.ended_ms === null ? this.feed.now : job.ended_ms / 1000;
    if (job.number !== null)
      lines.push(`waited ${lasting((began ?? end) - job.submitted_ms / 1000)} in the queue`);
    if (began !== null) lines.push(`began ${clock(began)}, ${job.ended_ms === null ? "for" : "took"} ${lasting(end - began)}`);
    else if (this.feed.starts.has(id)) lines.push(`expected to start ${clock(this.feed.starts.get(id) / 1000)}`);
    return lines.join("\n");
  }

  job(row) {
    return this.ids[row];
  }
}

function hosts(nodes) {
  const names = [...new Set(nodes)];
  return names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}
