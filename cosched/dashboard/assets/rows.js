// Draws any rows over time: scrolls and zooms them, by the mouse and by keys. The canvas has
// the height of the view: only the rows in view are painted, wherever a thousand rows are
// scrolled to. It follows the present until the user chooses another time.
"use strict";

const AXIS = 34, NARROW = 600, ZOOM_LEAST_S = 0.5;

class RowChart extends TimeView {
  // look: rows() the number of rows, height() of one in CSS pixels, paint(frame, row, top),
  // label(row), describe(row, seconds) the text of the tip or null, job(row, seconds) the job
  // that is explained or null, range() the seconds to follow, most the greatest height.
  constructor(host, look) {
    super();
    this.host = host;
    this.look = look;
    this.follows = true;
    this.row = -1;
    this.scroller = make("div", {class: "rows", tabindex: "0", role: "application", "aria-label": look.words});
    this.sizer = make("div", {});
    this.stage = make("div", {class: "stage"});
    this.tip = make("div", {class: "tip", hidden: ""});
    this.spoken = make("output", {class: "spoken"});
    this.sizer.append(this.stage);
    this.scroller.append(this.sizer);
    host.append(this.scroller, this.tip, this.spoken, this.tools());
    this.plot = new uPlot(this.options(), [[0, 1], [null, null]], this.stage);
    this.fit();
    this.listen();
  }

  tools() {
    const acts = [["−", "wider", () => this.zoom(2)], ["+", "closer", () => this.zoom(0.5)],
      ["←", "earlier", () => this.pan(-0.4)], ["→", "later", () => this.pan(0.4)],
      ["Now", "follow the present", () => this.follow()]];
    const buttons = acts.map(([sign, words, act]) => {
      const button = make("button", {title: words, "aria-label": words}, sign);
      button.addEventListener("click", act);
      return button;
    });
    this.present = buttons[4];
    return make("div", {class: "bar tools"}, ...buttons);
  }

  get labels() {
    return this.host.clientWidth < NARROW ? 74 : 132;
  }

  options() {
    const soft = () => style("--soft");
    return {
      width: Math.max(200, this.host.clientWidth), height: 100, padding: [0, 26, 0, 0], legend: {show: false},
      cursor: {y: false, points: {show: false}, drag: {x: true, y: false, setScale: false}},
      scales: {x: {time: true}, y: {range: [0, 1]}},
      series: [{}, {}],
      axes: [
        {side: 0, size: AXIS, stroke: soft, grid: {stroke: () => style("--line"), width: 1}, ticks: {show: false},
         space: 74, values: (_, splits) => splits.map(clock)},
        {size: () => this.labels, values: () => [], grid: {show: false}, ticks: {show: false}, splits: () => [0]},
      ],
      hooks: {
        draw: [() => this.draw()],
        setCursor: [() => this.point()],
        setSelect: [(plot) => this.choose(plot)],
      },
    };
  }

  // Takes the present number of rows, and the width of the page.
  fit() {
    const total = this.look.rows() * this.look.height() + AXIS + 4;
    const height = Math.min(total, this.look.most());
    const width = Math.max(200, this.scroller.clientWidth);
    const state = `${total} ${height} ${width}`;
    if (state === this.state) return;
    this.state = state;
    this.scroller.style.height = `${height}px`;
    this.sizer.style.height = `${total}px`;
    this.plot.setSize({width, height});
  }

  // Draws the present.
  update() {
    this.fit();
    if (this.follows) {
      const [min, max] = this.look.range();
      this.plot.setScale("x", {min, max});
    } else this.plot.redraw(false);
  }

  follow() {
    this.follows = true;
    this.present.disabled = true;
    this.update();
  }

  show(min, max) {
    this.follows = false;
    this.present.disabled = false;
    if (max - min < ZOOM_LEAST_S) max = min + ZOOM_LEAST_S;
    this.plot.setScale("x", {min, max});
  }

  choose(plot) {
    const {left, width} = plot.select;
    if (width < 6) return;
    const times = [left, left + width].map((at) => plot.posToVal(at, "x"));
    plot.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    this.show(...times);
  }

  listen() {
    const over = this.plot.over;
    this.scroller.addEventListener("scroll", () => this.plot.redraw(false), {passive: true});
    over.addEventListener("wheel", (event) => {
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 400), this.plot.posToVal(event.offsetX, "x"));
      else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.pan(sideways / 800);
      else return;
      event.preventDefault();
    }, {passive: false});
    over.addEventListener("dblclick", () => this.follow());
    over.addEventListener("click", () => this.click());
    over.addEventListener("mouseleave", () => this.leave());
    this.scroller.addEventListener("keydown", (event) => this.press(event));
    this.scroller.addEventListener("blur", () => this.go(-1));
    new ResizeObserver(() => this.fit()).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot.redraw(false));
  }

  press(event) {
    const keys = {
      ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25),
      ArrowUp: () => this.go(this.row - 1), ArrowDown: () => this.go(this.row + 1),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.follow(), Home: () => this.follow(),
      Enter: () => this.explain(this.row, this.view[1]),
    };
    if (event.metaKey || event.altKey || event.ctrlKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  // Marks a row for the keyboard, and scrolls it into view.
  go(row) {
    this.row = Math.max(-1, Math.min(this.look.rows() - 1, row));
    if (this.row >= 0) {
      const height = this.look.height(), top = this.row * height, room = this.scroller.clientHeight - AXIS;
      if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
      if (top + height > this.scroller.scrollTop + room) this.scroller.scrollTop = top + height - room;
      this.spoken.textContent = this.look.describe(this.row, this.view[1]) || this.look.label(this.row);
    }
    this.plot.redraw(false);
  }

  draw() {
    const {ctx, bbox, scales} = this.plot;
    const scale = devicePixelRatio, {min, max} = scales.x;
    const frame = {
      ctx, scale, min, max, left: bbox.left, right: bbox.left + bbox.width, height: this.look.height() * scale,
      x: (at) => bbox.left + ((at - min) / (max - min)) * bbox.width,
      ink: {text: style("--text"), empty: style("--empty"), mark: style("--mark")},
    };
    const height = this.look.height(), scrolled = this.scroller ? this.scroller.scrollTop : 0;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, bbox.top, this.plot.width * scale, bbox.height);
    ctx.clip();
    ctx.textBaseline = "middle";
    const last = Math.min(this.look.rows(), Math.ceil((scrolled + bbox.height / scale) / height));
    for (let row = Math.floor(scrolled / height); row < last; row++) {
      const top = bbox.top + (row * height - scrolled) * scale;
      if (row === this.row) {
        ctx.fillStyle = frame.ink.empty;
        ctx.fillRect(0, top, frame.right, frame.height);
      }
      this.drawLabel(frame, row, top);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, top, bbox.width, frame.height);
      ctx.clip();
      this.look.paint(frame, row, top);
      ctx.restore();
    }
    this.drawPresent(frame, bbox);
    ctx.restore();
  }

  drawLabel(frame, row, top) {
    const {ctx, scale, left, height} = frame;
    ctx.font = `${Math.min(13, Math.max(10, height / scale - 3)) * scale}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.textAlign = "right";
    ctx.fillStyle = frame.ink.text;
    ctx.fillText(shortened(ctx, this.look.label(row), left - 12 * scale), left - 8 * scale, top + height / 2);
  }

  drawPresent(frame, bbox) {
    const at = frame.x(this.look.now());
    if (at < frame.left || at > frame.right) return;
    frame.ctx.fillStyle = frame.ink.mark;
    frame.ctx.globalAlpha = 0.5;
    frame.ctx.fillRect(at, bbox.top, frame.scale, bbox.height);
    frame.ctx.globalAlpha = 1;
  }

  // Returns the row and the time under the pointer.
  under() {
    const {left, top} = this.plot.cursor;
    if (!(left >= 0)) return null;
    const row = Math.floor((top + this.scroller.scrollTop) / this.look.height());
    return row < this.look.rows() ? [row, this.plot.posToVal(left, "x")] : null;
  }

  point() {
    const place = this.under();
    const text = place && this.look.describe(...place, this.inRow());
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.textContent = text;
    const {left, top} = this.plot.cursor;
    const room = this.host.clientWidth - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(0, Math.min(left + this.labels + 14, room))}px`;
    this.tip.style.top = `${top + AXIS + 18}px`;
  }

  // Returns how far down in its row the pointer is, from 0 to 1.
  inRow() {
    const height = this.look.height();
    return (((this.plot.cursor.top + this.scroller.scrollTop) % height) + height) % height / height;
  }

  click() {
    const place = this.under();
    if (place) this.explain(...place, this.inRow());
  }

  explain(row, at, inRow) {
    if (row < 0 || row >= this.look.rows()) return;
    const job = this.look.job(row, at, inRow);
    if (job !== null) this.look.explain(job);
  }

  leave() {
    this.tip.hidden = true;
  }
}

// Returns the text, cut to a width in pixels of the canvas.
function shortened(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}
