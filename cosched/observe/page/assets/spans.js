// Paints spans on a time axis: their order, their times in words, and the part of the axis that
// is in view.
"use strict";

function sums(differences) {
  let at = 0;
  return Float64Array.from(differences, (step) => (at += step) / 1e6);
}

// Returns the index of the first value above `value`, in values that never decrease.
function firstAbove(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function seconds(value) {
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size >= 100) return value.toFixed(1) + " s";
  if (size >= 1) return value.toFixed(3) + " s";
  if (size >= 1e-3) return (value * 1e3).toFixed(size < 0.1 ? 2 : 1) + " ms";
  return (value * 1e6).toFixed(0) + " us";
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Paints the spans of one lane. Only the visible part is painted: bisection finds the first
// visible span, and spans narrower than a pixel are summed up by pixel. So a hundred thousand
// spans cost no more than a screen of them. frame: ctx, scale (pixels of the canvas for a CSS
// pixel), min and max in seconds, x (the pixel of a time). one: begin, end and job of the spans,
// in their order. look: colour, name and lit of a job.
function paintSpans(frame, one, top, height, look) {
  const {ctx, scale, min, max} = frame;
  let column = -1;
  let shares = new Map();
  const flush = () => {
    if (column < 0) return;
    const [job] = [...shares].reduce((best, item) => (item[1] > best[1] ? item : best));
    let covered = 0;
    for (const part of shares.values()) covered += part;
    fillSpan(ctx, look, job, column, top, 1, height, Math.min(1, Math.max(0.12, covered)));
    column = -1;
    shares = new Map();
  };
  const last = firstAbove(one.begin, max);
  for (let index = firstAbove(one.end, min); index < last; index++) {
    const job = one.job[index];
    const from = frame.x(Math.max(one.begin[index], min));
    const to = frame.x(Math.min(one.end[index], max));
    if (to - from >= scale) {
      flush();
      const seam = to - from > 4 * scale ? scale : 0;
      fillSpan(ctx, look, job, from, top, to - from - seam, height);
      nameSpan(ctx, scale, look.name(job), from, top + height / 2, to - from);
      continue;
    }
    if (Math.floor(from) !== column) flush();
    column = Math.floor(from);
    shares.set(job, (shares.get(job) || 0) + to - from);
  }
  flush();
}

// strength: the part of a pixel that the job covers, for spans narrower than a pixel.
function fillSpan(ctx, look, job, left, top, width, height, strength = 1) {
  ctx.globalAlpha = (look.lit(job) ? 1 : 0.15) * strength;
  ctx.fillStyle = look.colour(job);
  ctx.fillRect(left, top, width, height);
  ctx.globalAlpha = 1;
}

function nameSpan(ctx, scale, text, left, middle, width) {
  if (width < 34 * scale || ctx.measureText(text).width + 8 * scale > width) return;
  ctx.fillStyle = "#fff";
  ctx.textAlign = "center";
  ctx.fillText(text, left + width / 2, middle);
}

// The visible part of a time axis. A chart gives plot and show(min, max), both in seconds.
class TimeView {
  get view() {
    const {min, max} = this.plot.scales.x;
    return [min, max];
  }

  zoom(factor, at) {
    const [min, max] = this.view;
    const centre = at === undefined ? (min + max) / 2 : at;
    this.show(centre - (centre - min) * factor, centre + (max - centre) * factor);
  }

  pan(part) {
    const [min, max] = this.view;
    this.show(min + (max - min) * part, max + (max - min) * part);
  }
}
