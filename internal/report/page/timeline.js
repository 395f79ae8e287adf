// Shows every span of every worker in one iteration. It writes pixels into one picture, so that a frame is fast.
'use strict';

R.drawTimeline = function (d) {
  const t = d.timeline;
  if (!t) return;
  const s = R.section(
    'timeline',
    'Who does what, and when?',
    'Timeline',
    'A row is a worker, a colour is what it does or what it waits for. The line is the critical path: only what lies ' +
      'on it makes the iteration longer. Drag moves; Ctrl and the wheel zoom; arrow keys, plus, minus ' +
      'and 0 do the same.',
  );
  if (t.note) s.append(R.make('p', { class: 'note' }, t.note));
  new R.Timeline(s, t);
};

R.Timeline = class {
  constructor(parent, t) {
    this.t = t;
    this.canvas = R.make('canvas', { tabindex: 0, role: 'img', class: 'timeline' });
    this.g = this.canvas.getContext('2d');
    this.tip = R.make('div', { class: 'tip', hidden: true });
    this.said = R.make('output', { class: 'note said', 'aria-live': 'polite' });
    this.legend = R.make('div', { class: 'choice', role: 'group', 'aria-label': 'causes' });
    const several = t.attempts.length > 1;
    this.choice = R.make(
      'select',
      { 'aria-label': 'iteration' },
      ...t.windows.map((w, i) =>
        R.make(
          'option',
          { value: i },
          `${several ? `start ${w.attempt + 1}, ` : ''}iteration ${w.iteration}, ${w.why}`,
        ),
      ),
    );
    const button = (text, label, act) => R.make('button', { type: 'button', 'aria-label': label, onclick: act }, text);
    this.runners = R.make('input', { type: 'checkbox', onchange: () => this.open(this.number) });
    this.path = R.make('input', { type: 'checkbox', checked: true, onchange: () => this.ask() });
    this.frame = R.make('div', { class: 'canvas' }, this.canvas, this.tip);
    parent.append(
      R.make(
        'figure',
        { class: 'panel' },
        R.make(
          'div',
          { class: 'controls' },
          this.choice,
          button('−', 'zoom out', () => this.zoom(2)),
          button('+', 'zoom in', () => this.zoom(0.5)),
          button('All', 'show all', () => this.show(0, this.length)),
          R.make('label', {}, this.path, ' critical path'),
          R.make('label', {}, this.runners, ' runners'),
        ),
        this.legend,
        this.frame,
        this.said,
        R.behind(() => this.rows()),
      ),
    );
    this.choice.addEventListener('change', () => this.open(Number(this.choice.value)));
    this.dim = new Set();
    this.drawn = 0; // spans in the present frame
    this.listen();
    R.redraws.push(() => {
      this.colours();
      this.draw();
    });
    new ResizeObserver(() => this.ask()).observe(this.frame);
    // Begin with an iteration as most are.
    const regular = t.windows.findIndex((w) => w.why === 'one in 50');
    const tracks = t.windows[0].workers.length;
    this.runners.checked = tracks <= 24;
    this.open(regular >= 0 ? regular : t.windows.length - 1);
    this.choice.value = this.number;
    this.draw();
  }

  // open shows a window.
  open(number) {
    const w = (this.window = this.t.windows[number]),
      a = (this.attempt = this.t.attempts[w.attempt]);
    this.number = number;
    this.tracks = [];
    let at = 0;
    this.length = 1;
    for (let i = 0; i < w.workers.length; i++) {
      const n = w.counts[i],
        worker = a.workers[w.workers[i]],
        ends = new Float64Array(n);
      let end = w.firsts[i];
      for (let k = 0; k < n; k++) ends[k] = end += w.lengths[at + k];
      if (this.runners.checked || !worker.runner) {
        this.tracks.push({ worker, index: w.workers[i], first: w.firsts[i], ends, at, n });
      }
      this.length = Math.max(this.length, end);
      at += n;
    }
    if (this.tracks.length === 0) {
      this.runners.checked = true;
      return this.open(number);
    }
    this.row = new Map(this.tracks.map((track, r) => [track.index, r]));
    this.cursor = 0;
    const present = new Set(
      this.tracks.flatMap((track) => {
        const seen = new Set();
        for (let k = 0; k < track.n; k++) seen.add(w.sites[track.at + k]);
        return [...seen].map((site) => a.sites[site].cause);
      }),
    );
    this.legend.replaceChildren(
      ...R.causes
        .filter((c) => present.has(c))
        .map((c) =>
          R.make(
            'label',
            {},
            R.make('input', {
              type: 'checkbox',
              checked: !this.dim.has(c),
              onchange: (e) => {
                if (e.target.checked) this.dim.delete(c);
                else this.dim.add(c);
                this.colours();
                this.ask();
              },
            }),
            R.swatch(R.causeColour(c)),
            R.causeName(c),
          ),
        ),
    );
    this.path.disabled = !w.path;
    this.canvas.setAttribute(
      'aria-label',
      `Timeline of iteration ${w.iteration}: ${this.tracks.length} workers in ` +
        `${R.duration(this.length * w.tick)}. Up and down choose a worker. The table below has the numbers.`,
    );
    this.said.textContent = w.bound > 0 ? `Clocks of nodes agree within ${R.duration(w.bound)}.` : '';
    this.colours();
    const p = w.path; // the iteration on rank 0; other ranks may begin earlier, and end later
    this.zero = p ? p.starts[0] : 0;
    if (p) this.show(p.starts[0], p.ends[p.ends.length - 1]);
    else this.show(0, this.length);
  }

  // colours reads the style sheet: for each site its colour, as a pixel and in its parts.
  colours() {
    const back = R.rgb('panel'),
      sites = this.attempt.sites;
    this.back = R.pixel(...back);
    this.backs = Float64Array.from(back);
    this.pixels = new Uint32Array(sites.length);
    this.parts = new Float64Array(3 * sites.length);
    sites.forEach((site, k) => {
      let c = R.rgb(R.causeColour(site.cause));
      if (this.dim.has(site.cause)) c = c.map((v, i) => Math.round(0.12 * v + 0.88 * back[i]));
      this.pixels[k] = R.pixel(...c);
      this.parts.set(c, 3 * k);
    });
  }

  show(from, to) {
    const wide = Math.min(Math.max(to - from, 20), this.length);
    this.from = Math.min(Math.max(from, 0), this.length - wide);
    this.to = this.from + wide;
    this.ask();
  }

  zoom(factor, part = 0.5) {
    const wide = (this.to - this.from) * factor,
      at = this.from + part * (this.to - this.from);
    this.show(at - part * wide, at + (1 - part) * wide);
  }

  // ask draws with the browser's next frame.
  ask() {
    if (!this.asked) this.asked = requestAnimationFrame(() => this.draw());
  }

  // place sets the canvas to the size of its frame.
  place() {
    const scale = (this.scale = devicePixelRatio || 1),
      rows = this.tracks.length;
    this.label = 118;
    this.high = Math.min(Math.max(Math.floor(560 / rows), 4), 20); // of a row
    const wide = Math.max(this.frame.clientWidth, 240),
      high = 24 + rows * this.high;
    const w = Math.round(wide * scale),
      h = Math.round(high * scale);
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.height = high + 'px';
      this.picture = null;
    }
    this.plot = w - Math.round(this.label * scale);
    const pictureHigh = h - Math.round(24 * scale);
    if (!this.picture || this.picture.width !== this.plot || this.picture.height !== pictureHigh) {
      this.picture = this.g.createImageData(this.plot, pictureHigh);
      this.all = new Uint32Array(this.picture.data.buffer);
      this.line = new Uint32Array(this.plot);
    }
  }

  draw() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    const begun = performance.now();
    this.place();
    const g = this.g,
      scale = this.scale,
      h = this.high * scale,
      gap = this.high >= 7 ? scale : 0;
    this.all.fill(this.back);
    for (let r = 0; r < this.tracks.length; r++) {
      this.fill(this.tracks[r]);
      const bottom = Math.round((r + 1) * h - gap);
      for (let y = Math.round(r * h); y < bottom; y++) this.all.set(this.line, y * this.plot);
    }
    const left = Math.round(this.label * scale),
      top = Math.round(24 * scale);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    g.putImageData(this.picture, left, top);
    this.axis(left, top);
    this.labels(left, top, h);
    if (this.path.checked && this.window.path) this.drawPath(left, top, h);
    const took = performance.now() - begun;
    this.canvas.dataset.frameMs = took.toFixed(2);
    this.canvas.dataset.frames = Number(this.canvas.dataset.frames || 0) + 1;
    this.canvas.dataset.drawn = this.drawn;
    this.drawn = 0;
  }

  // fill makes the line of pixels of a track. A pixel with several spans has the mean of their colours.
  fill(track) {
    const { line, plot, pixels, parts, backs } = this,
      from = this.from,
      per = plot / (this.to - from);
    const sites = this.window.sites,
      ends = track.ends,
      first = track.at,
      n = track.n;
    line.fill(this.back);
    let k = R.search(ends, from + 1e-9);
    let x = Math.max(((k > 0 ? ends[k - 1] : track.first) - from) * per, 0);
    let red = 0,
      green = 0,
      blue = 0,
      weight = 0,
      at = Math.floor(x);
    const begun = k;
    for (; k < n && x < plot; k++) {
      const end = Math.min((ends[k] - from) * per, plot),
        last = Math.floor(end);
      if (end <= x) continue;
      const site = sites[first + k],
        c = 3 * site;
      const part = (last === at ? end : at + 1) - x; // of the present pixel
      red += part * parts[c];
      green += part * parts[c + 1];
      blue += part * parts[c + 2];
      weight += part;
      if (last !== at) {
        const rest = 1 - weight;
        line[at] =
          weight > 0.999
            ? R.pixel(red, green, blue)
            : R.pixel(red + rest * backs[0], green + rest * backs[1], blue + rest * backs[2]);
        if (last > at + 1) line.fill(pixels[site], at + 1, last);
        at = last;
        weight = end - last;
        red = weight * parts[c];
        green = weight * parts[c + 1];
        blue = weight * parts[c + 2];
      }
      x = end;
    }
    if (weight > 0 && at < plot) {
      const rest = 1 - weight;
      line[at] = R.pixel(red + rest * backs[0], green + rest * backs[1], blue + rest * backs[2]);
    }
    this.drawn += k - begun;
  }

  axis(left, top) {
    const g = this.g,
      scale = this.scale,
      seconds = (this.to - this.from) * this.window.tick;
    const rough = (seconds * 90 * scale) / this.plot;
    let step = 10 ** Math.floor(Math.log10(rough));
    step *= [1, 2, 5, 10].find((m) => m * step >= rough);
    g.font = `${11 * scale}px ${getComputedStyle(document.body).fontFamily}`;
    g.fillStyle = g.strokeStyle = R.colour('muted');
    g.textAlign = 'center';
    g.textBaseline = 'alphabetic';
    const first = (this.from - this.zero) * this.window.tick;
    for (let v = Math.ceil(first / step) * step; v <= first + seconds; v += step) {
      const x = left + ((v - first) / seconds) * this.plot;
      g.fillRect(Math.round(x), top - 5 * scale, scale, 5 * scale);
      if (x < left + this.plot - 30 * scale)
        g.fillText(R.duration(Math.abs(v) < step / 2 ? 0 : Number(v.toPrecision(9))), x, top - 9 * scale);
    }
  }

  labels(left, top, h) {
    const g = this.g,
      scale = this.scale;
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    const each = Math.ceil(12 / this.high);
    let before = -1;
    this.tracks.forEach((track, r) => {
      const y = top + (r + 0.5) * h,
        rank = track.worker.rank;
      if (r % each === 0) {
        g.font = `${Math.min(11, Math.max(9, this.high - 1)) * scale}px ${getComputedStyle(document.body).fontFamily}`;
        g.fillStyle =
          r === this.cursor && document.activeElement === this.canvas ? R.colour('accent') : R.colour('text');
        g.fillText(track.worker.name, left - 8 * scale, y, left - 40 * scale);
      }
      if (rank !== before && (this.high >= 7 || r % each === 0)) {
        g.fillStyle = R.colour('muted');
        g.textAlign = 'left';
        g.fillText(String(rank), 0, y);
        g.textAlign = 'right';
      }
      before = rank;
    });
    g.fillStyle = R.colour('muted');
    g.textAlign = 'left';
    g.font = `${10 * scale}px ${getComputedStyle(document.body).fontFamily}`;
    g.fillText('rank', 0, top - 12 * scale);
  }

  drawPath(left, top, h) {
    const p = this.window.path,
      g = this.g,
      per = this.plot / (this.to - this.from);
    g.save();
    g.beginPath();
    g.rect(left, top, this.plot, this.canvas.height - top);
    g.clip();
    // The line runs at the lower edge of a row, below its colours. Thin lines lead from row to row.
    const along = new Path2D(),
      across = new Path2D();
    let x = NaN,
      y = NaN,
      turn = -Infinity;
    const least = 3 * this.scale; // between two turns, where the path is dense
    for (let i = 0; i < p.workers.length; i++) {
      const r = this.row.get(p.workers[i]);
      if (r === undefined || p.ends[i] < this.from || p.starts[i] > this.to) continue;
      const from = left + (p.starts[i] - this.from) * per,
        to = left + (p.ends[i] - this.from) * per;
      const at = top + (r + 1) * h - 2 * this.scale;
      if (at !== y && to - from < least && from - turn < least) continue;
      if (at !== y || from > x + 1) {
        turn = from;
        if (!Number.isNaN(y)) {
          across.moveTo(x, y);
          across.lineTo(from, at);
        }
        along.moveTo(from, at);
      }
      along.lineTo(to, at);
      x = to;
      y = at;
    }
    g.strokeStyle = R.colour('text');
    g.globalAlpha = 0.35;
    g.lineWidth = this.scale;
    g.stroke(across);
    g.globalAlpha = 1;
    g.strokeStyle = R.colour('panel');
    g.lineWidth = 4 * this.scale;
    g.stroke(along);
    g.strokeStyle = R.colour('text');
    g.lineWidth = 2.2 * this.scale;
    g.stroke(along);
    g.restore();
  }

  // at returns the span at a place of the canvas, in CSS pixels.
  at(x, y) {
    const row = Math.floor((y - 24) / this.high),
      track = this.tracks[row];
    if (!track || x < this.label) return null;
    const tick = this.from + ((x - this.label) * this.scale * (this.to - this.from)) / this.plot;
    const k = R.search(track.ends, tick);
    const start = k > 0 ? track.ends[k - 1] : track.first;
    if (tick > track.ends[k] || tick < start) return null;
    return {
      track,
      row,
      start,
      end: track.ends[k],
      site: this.attempt.sites[this.window.sites[track.at + k]],
      arg: this.window.args[track.at + k],
    };
  }

  listen() {
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener(
      'wheel',
      (e) => {
        if (e.ctrlKey || e.metaKey) {
          e.preventDefault();
          this.zoom(Math.exp(e.deltaY / 300), this.part(e));
        } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
          e.preventDefault();
          const by = ((e.deltaX || e.deltaY) / 800) * (this.to - this.from);
          this.show(this.from + by, this.to + by);
        }
      },
      { passive: false },
    );
    canvas.addEventListener('pointerdown', (e) => {
      if (e.button !== 0) return;
      drag = { x: e.offsetX, from: this.from, to: this.to };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener('pointerup', () => {
      drag = null;
    });
    canvas.addEventListener('pointercancel', () => {
      drag = null;
    });
    canvas.addEventListener('dblclick', (e) => this.zoom(0.4, this.part(e)));
    canvas.addEventListener('pointermove', (e) => {
      if (drag) {
        const by = ((drag.x - e.offsetX) * this.scale * (drag.to - drag.from)) / this.plot;
        this.show(drag.from + by, drag.to + by);
      }
      this.point(e.offsetX, e.offsetY);
    });
    canvas.addEventListener('pointerleave', () => {
      this.tip.hidden = true;
    });
    canvas.addEventListener('focus', () => this.ask());
    canvas.addEventListener('blur', () => this.ask());
    canvas.addEventListener('keydown', (e) => {
      const wide = this.to - this.from;
      const act = {
        ArrowLeft: () => this.show(this.from - wide / 8, this.to - wide / 8),
        ArrowRight: () => this.show(this.from + wide / 8, this.to + wide / 8),
        ArrowUp: () => this.choose(this.cursor - 1),
        ArrowDown: () => this.choose(this.cursor + 1),
        '+': () => this.zoom(0.5),
        '=': () => this.zoom(0.5),
        '-': () => this.zoom(2),
        0: () => this.show(0, this.length),
        Home: () => this.show(0, this.length),
        Escape: () => {
          this.tip.hidden = true;
        },
      }[e.key];
      if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      act();
    });
  }

  part(e) {
    return Math.min(Math.max((e.offsetX - this.label) / Math.max(this.frame.clientWidth - this.label, 1), 0), 1);
  }

  // point shows the span at a place.
  point(x, y) {
    const at = this.at(x, y),
      tick = this.window.tick;
    this.tip.hidden = !at;
    if (!at) return;
    this.tip.replaceChildren(
      R.make('strong', {}, `${at.track.worker.name}, rank ${at.track.worker.rank}`),
      R.make('div', {}, R.swatch(R.causeColour(at.site.cause)), R.inSpan(at.site, at.arg)),
      R.make(
        'div',
        { class: 'note' },
        `${R.duration((at.end - at.start) * tick)}, from ${R.duration((at.start - this.zero) * tick)}`,
      ),
    );
    const wide = this.frame.clientWidth,
      right = x > wide - 280;
    this.tip.style.left = right ? '' : x + 14 + 'px';
    this.tip.style.right = right ? wide - x + 14 + 'px' : '';
    this.tip.style.top = y + 16 + 'px';
  }

  // choose takes a row, and says what its worker does in the visible time.
  choose(row) {
    this.cursor = Math.min(Math.max(row, 0), this.tracks.length - 1);
    const track = this.tracks[this.cursor],
      shares = this.shares(track, this.from, this.to);
    const total = this.to - this.from;
    this.said.textContent =
      `${track.worker.name}, rank ${track.worker.rank}: ` +
      [...shares]
        .sort((a, b) => b[1] - a[1])
        .slice(0, 5)
        .map(([c, v]) => `${R.causeName(c)} ${R.percent(v / total)}`)
        .join(', ');
    this.ask();
  }

  // shares returns the ticks of a track by cause.
  shares(track, from, to) {
    const out = new Map();
    let start = track.first;
    for (let k = 0; k < track.n; k++) {
      const end = track.ends[k],
        cause = this.attempt.sites[this.window.sites[track.at + k]].cause;
      const part = Math.min(end, to) - Math.max(start, from);
      if (part > 0) out.set(cause, (out.get(cause) || 0) + part);
      start = end;
    }
    return out;
  }

  rows() {
    const all = this.tracks.map((track) => this.shares(track, 0, this.length));
    const causes = R.causes.filter((c) => all.some((m) => m.has(c)));
    return [
      ['worker', 'rank', ...causes.map(R.causeName)],
      this.tracks.map((track, r) => [
        track.worker.name,
        String(track.worker.rank),
        ...causes.map((c) => R.duration((all[r].get(c) || 0) * this.window.tick)),
      ]),
      `iteration ${this.window.iteration}, time by cause`,
    ];
  }
};

// R.pixel returns a pixel of an ImageData, on a machine with the lowest byte first.
R.pixel = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
