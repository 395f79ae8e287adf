// Shows where the time of iterations goes: the phases of the slowest rank beside those of the mean.
'use strict';

R.drawPhases = function (d) {
  const p = d.phases;
  if (!p) return;
  const s = R.section(
    'phases',
    'Where does an iteration go?',
    'Phases',
    'The area of a colour is the time of a phase. Where the slowest rank is higher than the ' +
      'others, they wait for it. ' +
      p.source +
      (p.each > 1 ? ` A point stands for ${p.each} iterations, by the slowest of them.` : ''),
  );
  const x = () => ({ name: 'iteration', values: p.iterations, text: R.figure });
  const colours = { 'send weights': 1, 'make rollouts': 2, advantages: 7, train: 0, evaluate: 4, rest: 5 };
  const hidden = new Set();
  const sums = (part) => {
    const out = new Float64Array(p.iterations.length);
    part.forEach((y, k) => {
      if (!hidden.has(p.names[k]))
        y.forEach((v, i) => {
          out[i] += v;
        });
    });
    return out;
  };
  // Rare long iterations, as those with an evaluation, may stand out of the picture.
  const top = (visible) => {
    let most = 0;
    const [from, to] = R.groups.phases.range || [-Infinity, Infinity];
    for (const part of [p.slowest, p.mean]) {
      const y = sums(part)
        .filter((_, i) => p.iterations[i] >= from && p.iterations[i] <= to)
        .sort();
      if (y.length > 0)
        most = Math.max(
          most,
          visible ? y[y.length - 1] : Math.min(y[y.length - 1], 2 * y[Math.floor(0.8 * (y.length - 1))]),
        );
    }
    return most;
  };
  let whole = false;
  const grid = R.make('div', { class: 'grid two' });
  const charts = [];
  const choice = R.make('div', { class: 'choice', role: 'group', 'aria-label': 'phases' });
  p.names.forEach((name) => {
    const box = R.make('input', {
      type: 'checkbox',
      checked: true,
      onchange: () => {
        if (box.checked) hidden.delete(name);
        else hidden.add(name);
        charts.forEach((c) => {
          c.series.forEach((one) => {
            one.hidden = hidden.has(one.name);
          });
          c.draw();
        });
      },
    });
    const swatch = R.make('i', {});
    swatch.style.background = `var(--series-${colours[name]})`;
    choice.append(R.make('label', {}, box, swatch, name));
  });
  choice.append(
    R.make(
      'label',
      {},
      R.make('input', {
        type: 'checkbox',
        onchange: (e) => {
          whole = e.target.checked;
          charts.forEach((c) => c.draw());
        },
      }),
      'whole height of the longest iteration',
    ),
  );
  s.append(choice, grid);
  for (const [title, part] of [
    ['slowest rank', p.slowest],
    [p.meanName, p.mean],
  ]) {
    charts.push(
      R.chart(grid, {
        title,
        unit: 'seconds per iteration',
        group: 'phases',
        x,
        stacked: true,
        text: R.duration,
        top: () => top(whole),
        marks: d.curves ? d.curves.marks : [],
        series: p.names.map((name, k) => ({ name, raw: part[k], colour: colours[name] })),
      }),
    );
  }
};
