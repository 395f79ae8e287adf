// Shows the metrics of a run over iterations, environment steps or time.
'use strict';

R.drawCurves = function (d) {
  const c = d.curves;
  if (!c) return;
  const s = R.section(
    'curves',
    'Does it learn, and is training healthy?',
    'Learning',
    'Thin lines are single values, thick lines are means over a fiftieth of the run to either side. Drag across a ' +
      'chart to zoom all of them; a double click shows all.' +
      (c.each > 1 ? ` The run is long: of each ${c.each} lines a chart has the lowest and the highest value.` : ''),
  );
  const axes = {
    iterations: { name: 'iteration', values: c.iterations, text: R.figure },
    hours: { name: 'time', values: c.hours, text: (h) => R.duration(h * 3600) },
  };
  if (c.envSteps) axes.envSteps = { name: 'environment steps', values: c.envSteps, text: R.figure };
  for (const [name, a] of Object.entries(axes)) {
    a.place = name === 'iterations' ? (step) => step : (step) => a.values[R.search(c.iterations, step)];
  }
  let axis = axes.iterations;
  const names = { iterations: 'iterations', envSteps: 'environment steps', hours: 'time' };
  const choose = (name) => {
    axis = axes[name];
    R.groups.curves.range = null;
    R.groups.curves.charts.forEach((c) => c.draw());
  };
  const options = Object.entries(names).filter(([name]) => axes[name]);
  s.append(R.choice('x axis', 'axis', options, choose, 'over '));
  const draw = (parent, spec) =>
    R.chart(parent, {
      title: spec.title,
      unit: spec.unit,
      group: 'curves',
      x: () => axis,
      marks: c.marks,
      series: spec.series.map((one, i) => {
        const y = c.columns[one.metric];
        return { name: one.name, raw: y.raw, smooth: y.smooth, colour: i };
      }),
    });
  for (const g of c.groups || []) {
    s.append(R.make('h3', {}, g.title));
    const grid = R.make('div', { class: 'grid' });
    s.append(grid);
    g.charts.forEach((one) => draw(grid, one));
  }
  if (c.rest && c.rest.length > 0) {
    const grid = R.make('div', { class: 'grid' });
    const more = R.make(
      'details',
      { class: 'more' },
      R.make('summary', {}, `All other metrics (${c.rest.length})`),
      grid,
    );
    more.addEventListener('toggle', () => {
      if (!more.open || grid.children.length > 0) return;
      for (const name of c.rest) draw(grid, { title: name, series: [{ name: 'value', metric: name }] });
    });
    s.append(more);
  }
};

// R.search returns the place of the first number in x that is at least v; the last place if there is none.
R.search = function (x, v) {
  let low = 0,
    high = x.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < v) low = middle + 1;
    else high = middle;
  }
  return low;
};
