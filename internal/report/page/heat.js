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
    medians;
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
  const grid = R.grid({
    rows: h.rows,
    columns: h.iterations,
    colours: (all) => {
      const low = R.rgb('heat-low'),
        middle = R.rgb('heat-middle'),
        top = R.rgb('heat-top');
      const sorted = values.slice().sort(),
        most = sorted[Math.floor(0.995 * (sorted.length - 1))] || 1;
      for (let i = 0; i < all.length; i++) {
        if (against.value === 'seconds') {
          all[i] = R.mix(middle, top, values[i] / most);
        } else {
          const ratio = medians[i % columns] > 0 ? Math.log2(values[i] / medians[i % columns]) : 0;
          all[i] = R.mix(middle, ratio < 0 ? low : top, Math.abs(ratio));
        }
      }
      scale.replaceChildren(
        ...(against.value === 'seconds'
          ? ['0', R.make('i', { class: 'up' }), R.duration(most)]
          : ['half', R.make('i', { class: 'both' }), 'twice']),
      );
    },
    tell: (r, c) =>
      `${h.rows[r]}, iteration ${R.figure(h.iterations[c])}: ${R.duration(values[r * columns + c])}, ` +
      `the median ${h.of} ${R.duration(medians[c])}`,
    about:
      `Times of ${rows} ${h.of}s in ${columns} columns of iterations. Arrow keys read cells. ` +
      'The table below has the means.',
  });
  const again = () => {
    read();
    grid.draw();
  };
  what.addEventListener('change', again);
  against.addEventListener('change', grid.draw);
  s.append(
    R.make(
      'figure',
      { class: 'panel' },
      R.make('div', { class: 'controls' }, what, against, scale),
      ...grid.parts,
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
  grid.show();
};
