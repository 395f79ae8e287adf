// Shows how many answers had which reward, over time.
'use strict';

R.drawRewards = function (d) {
  const w = d.rewards;
  if (!w) return;
  const s = R.section(
    'rewards',
    'Which rewards do answers get?',
    'Rewards',
    `A row is ${w.range ? `a range of rewards, from its name up to ${R.figure(w.range)} more` : 'a reward'}, ` +
      `a column is ${w.each > 1 ? `${w.each} lines of metrics` : 'a line of metrics'}. A colour is the share of the ` +
      'answers of training in a cell.',
  );
  const columns = w.iterations.length;
  const totals = new Float64Array(columns);
  w.counts.forEach((n, i) => (totals[i % columns] += n));
  const shares = w.counts.map((n, i) => n / (totals[i % columns] || 1)),
    most = shares.reduce((a, b) => Math.max(a, b));
  const grid = R.grid({
    rows: w.rows,
    columns: w.iterations,
    colours: (all) => {
      const low = R.rgb('heat-middle'),
        top = R.rgb('heat-top');
      for (let i = 0; i < all.length; i++) all[i] = R.mix(low, top, shares[i] / most);
    },
    tell: (r, c) =>
      `reward ${w.rows[r]}, iteration ${R.figure(w.iterations[c])}: ${R.percent(shares[r * columns + c])} of ` +
      `${R.figure(totals[c])} answers`,
    about: `Shares of ${w.rows.length} rewards in ${columns} columns of iterations. Arrow keys read cells.`,
  });
  s.append(
    R.make(
      'figure',
      { class: 'panel' },
      R.make(
        'div',
        { class: 'controls' },
        R.make('div', { class: 'scale', 'aria-hidden': 'true' }, '0', R.make('i', { class: 'up' }), R.percent(most)),
      ),
      ...grid.parts,
      R.behind(() => [
        ['iteration', ...w.rows],
        R.some(columns, 40).map((c) => [
          R.figure(w.iterations[c]),
          ...w.rows.map((_, r) => R.percent(shares[r * columns + c])),
        ]),
        'shares of answers',
      ]),
    ),
  );
  grid.show();
};
