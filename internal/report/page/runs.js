// Compares several runs: curves with bands, the table of `rlinf compare`, all other metrics, and the keys that differ.
'use strict';

R.drawRuns = function (d) {
  document.getElementById('title').textContent = d.title;
  document.getElementById('state').remove();
  document.getElementById('folder').remove();
  const problems = document.getElementById('problems');
  problems.hidden = !d.problems || d.problems.length === 0;
  problems.querySelector('ul').append(...(d.problems || []).map((t) => R.make('li', {}, t)));
  document.getElementById('summary').hidden = problems.hidden;
  document.getElementById('contents').firstElementChild.hidden = problems.hidden;
  const s = R.section(
    'compare',
    `Which is better by ${d.metric}?`,
    'Comparison',
    "The interval is Student's 95 % interval of the mean over seeds; a single seed has none. A difference " +
      'whose interval contains 0 may be chance.',
  );
  const names = d.names;
  const colour = (i) => `series-${i % R.series}`;
  s.append(
    R.table(
      [...d.table[0], 'states'],
      d.table.slice(1).map((r, i) => [R.make('span', {}, R.swatch(colour(i)), r[0]), ...r.slice(1), d.states[i] || '']),
      `comparison by ${d.metric}`,
    ),
  );
  if (d.charts && d.charts.length > 0) {
    const c = R.section(
      'curves',
      'How do they learn?',
      'Curves',
      `Means over seeds by ${d.steps}, with 95 % intervals. ` +
        'Drag across a chart to zoom all of them; a double click shows all.',
    );
    c.append(R.legend(names.map((n, i) => [colour(i), n])));
    const first = R.make('div', { class: 'grid one' }),
      grid = R.make('div', { class: 'grid' });
    c.append(first, grid);
    // All curves get one x axis, so that the charts are tied.
    const x = Float64Array.from(new Set(d.charts.flatMap((chart) => chart.curves.flatMap((one) => [...one.x])))).sort();
    const place = new Map(Array.from(x, (v, i) => [v, i]));
    d.charts.forEach((chart, k) => {
      const spread = (one, values) => {
        const out = new Float64Array(x.length).fill(NaN);
        one.x.forEach((v, i) => {
          out[place.get(v)] = values[i];
        });
        return out;
      };
      R.chart(k === 0 ? first : grid, {
        title: chart.metric,
        height: k === 0 ? 320 : 200,
        group: 'runs',
        x: () => ({ name: d.steps, values: x, text: R.figure }),
        series: chart.curves.map((one) => {
          const banded = one.low.some((v) => Number.isFinite(v));
          return {
            name: names[one.group],
            colour: one.group,
            span: true,
            points: one.x.length < 40,
            raw: spread(one, one.y),
            low: banded ? spread(one, one.low) : null,
            high: banded ? spread(one, one.high) : null,
          };
        }),
      });
    });
  }
  if (d.keys && d.keys.length > 0) {
    const k = R.section(
      'keys',
      'What differs in their settings?',
      'Settings',
      'Seeds and the places of logs are left out.',
    );
    k.append(
      R.table(
        ['key', ...names],
        d.keys.map((one) => [R.make('code', {}, one.key), ...one.values.map((v) => R.make('code', {}, v))]),
        'keys that differ',
      ),
    );
  }
  if (d.finals && d.finals.length > 0) {
    const f = R.section(
      'finals',
      'What are all other figures?',
      'All metrics',
      'Last values, mean ± standard deviation over seeds.',
    );
    f.append(
      R.table(
        ['metric', ...names],
        d.finals.map((row) => [R.make('code', {}, row[0]), ...row.slice(1)]),
        'last values of all metrics',
      ),
    );
  }
};
