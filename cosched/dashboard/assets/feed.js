// Asks the server for news and keeps what the page draws. A hidden or paused page asks nothing.
"use strict";

const TABLES = ["nodes", "daemons", "jobs", "live", "starts", "waits", "mates", "domains"];
const KEEP_S = 900, PATIENCE_MS = 15000;

// The spans of one job on one node, in seconds since 1970 and in their order.
class Spans {
  constructor(job) {
    this.index = job;
    this.begin = [];
    this.end = [];
    this.job = [];
    this.running = null;
  }

  // packed: a begin in ms, then lengths and gaps in turn.
  add(packed) {
    let at = 0;
    packed.forEach((step, place) => {
      at += step;
      (place % 2 ? this.end : this.begin).push(at / 1000);
      if (place % 2) this.job.push(this.index);
    });
  }

  // Drops the spans that ended before `since`.
  drop(since) {
    const count = firstAbove(this.end, since);
    if (count < 64) return;
    for (const list of [this.begin, this.end, this.job]) list.splice(0, count);
  }
}

class Feed {
  constructor(onNews, onTrouble) {
    this.onNews = onNews;
    this.onTrouble = onTrouble;
    this.paused = false;
    this.timer = 0;
    this.clear();
    document.addEventListener("visibilitychange", () => this.ask());
  }

  clear() {
    this.run = "";
    this.version = 0;
    this.spans = new Map();
    for (const name of TABLES) this[name] = new Map();
  }

  // The present time at the server, in seconds since 1970.
  get now() {
    return (this.atMs + (this.paused ? 0 : performance.now() - this.gotMs)) / 1000;
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.paused || document.hidden || this.asking) return;
    this.asking = true;
    let waitMs = 2000;
    try {
      const given = `news?run=${this.run}&after=${this.version}`;
      const answer = await fetch(given, {signal: AbortSignal.timeout(PATIENCE_MS)});
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const news = await answer.json();
      waitMs = news.interval_s * 1000;
      this.take(news);
      this.onNews(news);
    } catch (error) {
      this.onTrouble(error instanceof TypeError || error.name === "TimeoutError"
        ? "cosched dashboard does not answer; start it again" : error.message);
    } finally {
      this.asking = false;
    }
    this.timer = setTimeout(() => this.ask(), waitMs);
  }

  take(news) {
    if (!news.after) this.clear();
    this.run = news.run;
    this.version = news.version;
    this.atMs = news.at_ms;
    this.gotMs = performance.now();
    for (const name of TABLES) {
      const table = this[name];
      for (const key of news[name].gone) table.delete(key);
      for (const [key, row] of Object.entries(news[name].set)) table.set(key, row);
    }
    this.takeSpans(news);
  }

  takeSpans(news) {
    const since = news.at_ms / 1000 - KEEP_S;
    for (const [node, jobs] of this.spans)
      for (const [job, spans] of jobs) {
        spans.running = null;
        spans.drop(since);
        if (!this.jobs.has(job)) jobs.delete(job);
        if (!jobs.size) this.spans.delete(node);
      }
    for (const [node, jobs] of Object.entries(news.spans))
      for (const [job, packed] of Object.entries(jobs)) this.spansOf(node, job).add(packed);
    for (const [node, jobs] of Object.entries(news.running))
      for (const [job, beginMs] of Object.entries(jobs)) this.spansOf(node, job).running = beginMs / 1000;
  }

  spansOf(node, job) {
    if (!this.spans.has(node)) this.spans.set(node, new Map());
    const jobs = this.spans.get(node);
    if (!jobs.has(job)) jobs.set(job, new Spans(job));
    return jobs.get(job);
  }
}
