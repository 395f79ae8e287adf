// Shows times by rank and iteration: a slow rank is a line, a disturbance is a spot.
'use strict';

R.drawHeat = function (d) {
  const h = d.heat;
  if (!h) return;
  const s = R.section(
    'heat',
    `Is a ${h.of} slower, or is it noise?`,
    'Ranks',
    `A row is a ${h.of}, a column is ${h.each > 1 ? `the longest of ${h.each} iterations` : 'an iteration'}. ` +
      `A slow ${h.of} ` +
      'is a line in all columns, a disturbance is a spot.',
  );
  const canvas = R.make('canvas', { tabindex: 0, role: 'img', class: 'heat' }),
    g = canvas.getContext('2d');
  const tip = R.make('div', { class: 'tip', hidden: true }),
    frame = R.make('div', { class: 'canvas' }, canvas, tip);
  const said = R.make('output', { class: 'note said', 'aria-live': 'polite' });
  const what = R.make(
    'select',
    { 'aria-label': 'time' },
    ...h.measures.map((m, i) => R.make('option', { value: i }, m.name)),
  );
  const against = R.make(
    'select',
    { 'aria-label': 'scale' },
    R.make('option', { value: 'median' }, `against the median ${h.of}`),
    R.make('option', { value: 'seconds' }, 'in seconds'),
  );
  const scale = R.make('div', { class: 'scale', 'aria-hidden': 'true' });
  const rows = h.rows.length,
    columns = h.iterations.length;
  let values,
    medians,
    cursor = [0, 0];
  const read = () => {
    const m = h.measures[what.value];
    values = Float64Array.from(m.values, (v) => (v / 65535) * m.top);
    medians = new Float64Array(columns);
    for (let c = 0; c < columns; c++) {
      const column = [];
      for (let r = 0; r < rows; r++) column.push(values[r * columns + c]);
      column.sort((a, b) => a - b);
      medians[c] = (column[(rows - 1) >> 1] + column[rows >> 1]) / 2;
    }
  };
  const label = 70,
    axis = 22;
  const high = Math.min(Math.max(Math.floor(420 / rows), 5), 26);
  const mix = (a, b, t) => R.pixel(...a.map((v, i) => Math.round(v + (b[i] - v) * t)));
  const draw = () => {
    const k = devicePixelRatio || 1,
      wide = Math.max(frame.clientWidth, 240);
    canvas.width = Math.round(wide * k);
    canvas.height = Math.round((rows * high + axis) * k);
    canvas.style.height = rows * high + axis + 'px';
    const picture = g.createImageData(columns, rows),
      all = new Uint32Array(picture.data.buffer);
    const low = R.rgb('heat-low'),
      middle = R.rgb('heat-middle'),
      top = R.rgb('heat-top');
    const sorted = values.slice().sort(),
      most = sorted[Math.floor(0.995 * (sorted.length - 1))] || 1;
    for (let i = 0; i < all.length; i++) {
      if (against.value === 'seconds') {
        all[i] = mix(middle, top, Math.min(values[i] / most, 1));
      } else {
        const ratio = medians[i % columns] > 0 ? Math.log2(values[i] / medians[i % columns]) : 0;
        all[i] = ratio < 0 ? mix(middle, low, Math.min(-ratio, 1)) : mix(middle, top, Math.min(ratio, 1));
      }
    }
    const small = new OffscreenCanvas(columns, rows);
    small.getContext('2d').putImageData(picture, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, label * k, 0, canvas.width - label * k, rows * high * k);
    g.font = `${11 * k}px ${getComputedStyle(document.body).fontFamily}`;
    g.fillStyle = R.colour('muted');
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    const each = Math.ceil(13 / high);
    for (let r = 0; r < rows; r += each) g.fillText(h.rows[r], (label - 8) * k, (r + 0.5) * high * k);
    g.textBaseline = 'alphabetic';
    for (const c of R.some(columns, Math.min(columns, 7))) {
      g.textAlign = c === 0 ? 'left' : c === columns - 1 ? 'right' : 'center';
      g.fillText(
        R.figure(h.iterations[c]),
        label * k + ((c + 0.5) / columns) * (canvas.width - label * k),
        canvas.height - 6 * k,
      );
    }
    scale.replaceChildren(
      ...(against.value === 'seconds'
        ? ['0', R.make('i', { class: 'up' }), R.duration(most)]
        : ['half', R.make('i', { class: 'both' }), 'twice']),
    );
  };
  const tell = (r, c) =>
    `${h.rows[r]}, iteration ${R.figure(h.iterations[c])}: ${R.duration(values[r * columns + c])}, ` +
    `the median ${h.of} ${R.duration(medians[c])}`;
  canvas.addEventListener('pointermove', (e) => {
    const c = Math.floor(((e.offsetX - label) / (frame.clientWidth - label)) * columns),
      r = Math.floor(e.offsetY / high);
    tip.hidden = !(c >= 0 && c < columns && r >= 0 && r < rows);
    if (tip.hidden) return;
    tip.textContent = tell(r, c);
    const right = e.offsetX > frame.clientWidth - 300;
    tip.style.left = right ? '' : e.offsetX + 14 + 'px';
    tip.style.right = right ? frame.clientWidth - e.offsetX + 14 + 'px' : '';
    tip.style.top = e.offsetY + 16 + 'px';
  });
  canvas.addEventListener('pointerleave', () => {
    tip.hidden = true;
  });
  canvas.addEventListener('keydown', (e) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!move) return;
    e.preventDefault();
    cursor = [
      Math.min(Math.max(cursor[0] + move[0], 0), rows - 1),
      Math.min(Math.max(cursor[1] + move[1], 0), columns - 1),
    ];
    said.textContent = tell(...cursor);
  });
  canvas.setAttribute(
    'aria-label',
    `Times of ${rows} ${h.of}s in ${columns} columns of iterations. Arrow keys read cells. ` +
      'The table below has the means.',
  );
  const again = () => {
    read();
    draw();
  };
  what.addEventListener('change', again);
  against.addEventListener('change', draw);
  s.append(
    R.make(
      'figure',
      { class: 'panel' },
      R.make('div', { class: 'controls' }, what, against, scale),
      frame,
      said,
      R.behind(() => {
        const mean = (m, r) => {
          let sum = 0;
          for (let c = 0; c < columns; c++) sum += m.values[r * columns + c];
          return (sum / columns / 65535) * m.top;
        };
        return [
          [h.of, ...h.measures.map((m) => m.name)],
          h.rows.map((name, r) => [name, ...h.measures.map((m) => R.duration(mean(m, r)))]),
          'mean of the columns',
        ];
      }),
    ),
  );
  read();
  draw();
  R.redraws.push(draw);
  let before = frame.clientWidth;
  new ResizeObserver(() => {
    if (frame.clientWidth !== before) draw();
    before = frame.clientWidth;
  }).observe(frame);
};
