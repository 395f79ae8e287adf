// Draws curves with uPlot. Charts of one group have one x axis: their cursors and their zoom are tied.
'use strict';

R.groups = {}; // charts by group
R.charts = []; // all charts

// R.chart adds a chart to parent.
//
//   title, unit   texts
//   group         name of the charts that are tied to this one
//   x()           {name, values, text(x)} of the x axis, asked at each drawing
//   series        [{name, raw, smooth, low, high, colour}]: arrays as long as the values of x; colour is a number
//   stacked       areas on top of each other
//   text(y)       formats a value
//   marks         [{at, text}] on the axis of iterations
R.chart = function (parent, c) {
  c.text = c.text || R.figure;
  c.legend = R.make('div', { class: 'legend' });
  c.box = R.make('div', { class: 'plot', tabindex: 0, role: 'img', 'aria-label': R.inWords(c) });
  c.figure = R.make(
    'figure',
    { class: 'chart' },
    R.make('figcaption', {}, c.title, c.unit ? R.make('span', { class: 'unit' }, c.unit) : null),
    c.legend,
    c.box,
    R.behind(() => R.rowsOf(c)),
  );
  parent.append(c.figure);
  c.values = c.series.map((s) => {
    const text = R.make('span', { class: 'value' });
    const swatch = R.make('i', {});
    swatch.style.background = `var(--series-${s.colour % R.series})`;
    c.legend.append(R.make('span', { class: 'entry' }, swatch, s.name, text));
    return text;
  });
  c.group = c.group || 'alone-' + R.charts.length;
  (R.groups[c.group] = R.groups[c.group] || { charts: [], range: null }).charts.push(c);
  R.charts.push(c);
  c.box.addEventListener('keydown', (e) => R.chartKey(c, e));
  c.draw = () => R.drawChart(c);
  c.draw();
  R.redraws.push(c.draw);
  new ResizeObserver(() => {
    if (c.plot && c.box.clientWidth > 0 && c.box.clientWidth !== c.plot.width) {
      c.plot.setSize({ width: c.box.clientWidth, height: c.height || 200 });
    }
  }).observe(c.box);
  return c;
};

// R.inWords describes a chart for those who cannot see it.
R.inWords = function (c) {
  const ends = c.series.map((s) => {
    const y = s.smooth || s.raw;
    const seen = [];
    for (let i = 0; i < y.length; i++) if (Number.isFinite(y[i])) seen.push(y[i]);
    if (seen.length === 0) return s.name + ': no values';
    return `${s.name}: from ${c.text(seen[0])} to ${c.text(seen[seen.length - 1])}`;
  });
  return (
    `${c.title}${c.unit ? ', ' + c.unit : ''}. ${ends.join('; ')}. Keys: arrows move, plus and minus zoom, ` +
    `0 shows all. The table below has the numbers.`
  );
};

// R.rowsOf returns the table behind a chart.
R.rowsOf = function (c) {
  const x = c.x(),
    most = 200;
  const seen = [];
  for (let i = 0; i < x.values.length; i++) {
    if (c.series.some((s) => Number.isFinite((s.raw || s.smooth)[i]))) seen.push(i);
  }
  const head = [x.name],
    rows = [];
  for (const s of c.series) {
    head.push(s.name);
    if (s.smooth && s.raw) head.push(s.name + ', smoothed');
    if (s.low) head.push('95 % interval');
  }
  for (const k of R.some(seen.length, most)) {
    const i = seen[k],
      row = [x.text(x.values[i])];
    for (const s of c.series) {
      row.push(c.text((s.raw || s.smooth)[i]));
      if (s.smooth && s.raw) row.push(c.text(s.smooth[i]));
      if (s.low) row.push(Number.isFinite(s.low[i]) ? c.text(s.low[i]) + ' … ' + c.text(s.high[i]) : '–');
    }
    rows.push(row);
  }
  const note = seen.length > most ? ` ${most} of ${seen.length} rows.` : '';
  return [head, rows, c.title + '.' + note];
};

// R.nulls returns numbers for uPlot, which wants null in place of NaN.
R.nulls = function (x) {
  const out = new Array(x.length);
  for (let i = 0; i < x.length; i++) out[i] = Number.isFinite(x[i]) ? x[i] : null;
  return out;
};

// R.isSparse reports whether less than half of the values are there, as of evaluations.
R.isSparse = function (x) {
  let n = 0;
  for (let i = 0; i < x.length; i++) if (Number.isFinite(x[i])) n++;
  return n < x.length / 2;
};

// R.drawChart makes the uPlot of a chart, with the present colours.
R.drawChart = function (c) {
  const x = c.x(),
    data = [x.values],
    lines = [{}],
    bands = [];
  c.shown = []; // per series of c: the index in data of the line that the legend tells
  const colour = (s) => R.seriesColour(s.colour);
  if (c.stacked) {
    const sums = new Float64Array(x.values.length);
    const layers = c.series.map((s) => {
      if (!s.hidden) for (let i = 0; i < sums.length; i++) sums[i] += Number.isFinite(s.raw[i]) ? s.raw[i] : 0;
      return Array.from(sums);
    });
    for (let k = layers.length - 1; k >= 0; k--) {
      data.push(layers[k]);
      lines.push({ stroke: colour(c.series[k]), fill: colour(c.series[k]), width: 0.5, points: { show: false } });
    }
  } else {
    c.series.forEach((s) => {
      const main = s.smooth || s.raw,
        sparse = R.isSparse(main);
      if (s.low) {
        data.push(R.nulls(s.high), R.nulls(s.low));
        const edge = { stroke: 'transparent', width: 0, points: { show: false }, spanGaps: true };
        lines.push(edge, edge);
        bands.push({ series: [data.length - 2, data.length - 1], fill: colour(s) + '33' });
      }
      if (s.smooth && s.raw) {
        data.push(R.nulls(s.raw));
        lines.push({ stroke: colour(s) + '59', width: 1, points: { show: false } });
      }
      data.push(R.nulls(main));
      c.shown.push(data.length - 1);
      lines.push({
        stroke: colour(s),
        width: 2,
        dash: s.colour < R.series ? [] : [6, 4],
        spanGaps: sparse || !!s.span,
        points: { show: s.span ? !!s.points : sparse, size: 5, fill: colour(s) },
      });
    });
  }
  const text = R.colour('muted'),
    grid = { stroke: R.colour('grid'), width: 1 };
  const font = '11px ' + getComputedStyle(document.body).fontFamily;
  const group = R.groups[c.group];
  const least = x.values[0],
    most = x.values[x.values.length - 1];
  if (c.plot) c.plot.destroy();
  c.plot = new uPlot(
    {
      width: Math.max(c.box.clientWidth, 200),
      height: c.height || 200,
      series: lines,
      bands,
      legend: { show: false },
      padding: [6, 12, 0, 0],
      scales: {
        x: {
          time: false,
          range: () => (group.range ? group.range : least < most ? [least, most] : [least - 1, most + 1]),
        },
        y: {
          range: (_, low, high) => {
            if (low === null || low === undefined) return [0, 1];
            if (c.stacked) return [0, (c.top ? c.top() : high) || 1];
            if (low === high && low === 0) return [-0.5, 1];
            if (low === high)
              return [low - Math.max(Math.abs(low) / 10, 1e-6), high + Math.max(Math.abs(high) / 10, 1e-6)];
            return [low - 0.06 * (high - low), high + 0.08 * (high - low)];
          },
        },
      },
      axes: [
        {
          stroke: text,
          grid,
          ticks: grid,
          font,
          size: 28,
          gap: 4,
          values: (_, at) => at.map((v) => x.text(v)),
          space: 60,
        },
        {
          stroke: text,
          grid,
          ticks: grid,
          font,
          size: 62,
          gap: 4,
          values: (_, at) => at.map((v) => c.text(v)),
          space: 36,
        },
      ],
      cursor: {
        sync: { key: c.group, setSeries: false },
        drag: { x: true, y: false, setScale: false },
        y: false,
        points: { show: !c.stacked },
      },
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            const range = [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')];
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            R.zoomGroup(c.group, range);
          },
        ],
        setCursor: [(u) => R.tell(c, u.cursor.idx)],
        drawClear: [(u) => R.drawMarks(c, u)],
      },
    },
    data,
    c.box,
  );
  c.plot.over.addEventListener('dblclick', () => R.zoomGroup(c.group, null));
  R.tell(c, null);
};

// R.drawMarks draws the marks on the axis of iterations as dashed lines.
R.drawMarks = function (c, u) {
  const x = c.x();
  for (const m of c.marks || []) {
    const at = x.place ? x.place(m.at) : m.at;
    if (!(at >= u.scales.x.min && at <= u.scales.x.max)) continue;
    const px = Math.round(u.valToPos(at, 'x', true)),
      g = u.ctx;
    g.save();
    g.strokeStyle = g.fillStyle = R.colour('muted');
    g.setLineDash([4, 4]);
    g.beginPath();
    g.moveTo(px, u.bbox.top);
    g.lineTo(px, u.bbox.top + u.bbox.height);
    g.stroke();
    g.font = `${10 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
    g.fillText(m.text, px + 4 * devicePixelRatio, u.bbox.top + 11 * devicePixelRatio);
    g.restore();
  }
};

// R.tell writes the values at the cursor into the legend; without a cursor, the newest.
R.tell = function (c, at) {
  c.series.forEach((s, k) => {
    const y = s.smooth || s.raw;
    let i = at === null || at === undefined ? y.length - 1 : at;
    while (i > 0 && !Number.isFinite(y[i])) i--;
    const raw = s.smooth && s.raw && Number.isFinite(s.raw[i]) ? ` (${c.text(s.raw[i])})` : '';
    c.values[k].textContent = c.text(y[i]) + raw;
  });
};

// R.zoomGroup shows a range of x in all charts of a group; null shows all.
R.zoomGroup = function (name, range) {
  const group = R.groups[name];
  const x = group.charts[0].x().values;
  const least = x[0],
    most = x[x.length - 1];
  if (range) {
    range = [Math.max(range[0], least), Math.min(range[1], most)];
    if (!(range[1] > range[0]) || (range[0] <= least && range[1] >= most)) range = null;
  }
  group.range = range;
  for (const c of group.charts) {
    const to = range || (least < most ? [least, most] : [least - 1, most + 1]);
    c.plot.setScale('x', { min: to[0], max: to[1] });
  }
};

// R.chartKey moves and zooms by the keyboard.
R.chartKey = function (c, e) {
  const x = c.x().values,
    all = [x[0], x[x.length - 1]];
  const [from, to] = R.groups[c.group].range || all,
    wide = to - from,
    middle = (from + to) / 2;
  const go = {
    ArrowLeft: () => [from - wide / 8, to - wide / 8],
    ArrowRight: () => [from + wide / 8, to + wide / 8],
    '+': () => [middle - wide / 3, middle + wide / 3],
    '=': () => [middle - wide / 3, middle + wide / 3],
    '-': () => [middle - wide * 0.75, middle + wide * 0.75],
    0: () => null,
    Home: () => null,
    Escape: () => null,
  }[e.key];
  if (!go || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  let range = go();
  if (range && e.key.startsWith('Arrow')) {
    // keep the width at the ends
    const shift = Math.max(all[0] - range[0], 0) + Math.min(all[1] - range[1], 0);
    range = [range[0] + shift, range[1] + shift];
  }
  R.zoomGroup(c.group, range);
};
