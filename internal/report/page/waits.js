// Shows for what workers spend their time: a bar for each component and each worker.
'use strict';

R.drawWaits = function (d) {
  const w = d.waits;
  if (!w) return;
  const s = R.section(
    'waits',
    'Who waits, and for what?',
    'Waits',
    `Shares of the time of ${w.iterations} iterations${w.attempt > 1 ? `, start ${w.attempt}` : ''}. Blue is work, ` +
      'other colours are waits, grey is time without a call.',
  );
  if (w.hidden > 0) {
    s.append(
      R.make(
        'p',
        { class: 'note' },
        `${w.hidden} ranks are left out: the bars are those of the ranks that ` +
          'waited most, and of those that waited least. Components count all ranks.',
      ),
    );
  }
  const present = w.causes.map((c, k) => k).filter((k) => w.rows.some((r) => r.seconds[k] > 0));
  s.append(R.legend(present.map((k) => [R.causeColour(w.causes[k]), R.causeName(w.causes[k])])));
  const row = (r) => {
    const total = r.seconds.reduce((a, b) => a + b, 0) || 1;
    const busy = r.seconds.reduce((a, v, k) => a + (w.waits[k] ? 0 : v), 0);
    const order = present.slice().sort((a, b) => R.causes.indexOf(w.causes[a]) - R.causes.indexOf(w.causes[b]));
    const texts = order
      .filter((k) => r.seconds[k] > 0)
      .map((k) => `${R.causeName(w.causes[k])} ${R.percent(r.seconds[k] / total)}`);
    return R.barRow(
      r.name,
      r.rank >= 0 ? `rank ${r.rank}` : r.workers === 1 ? '1 worker' : `${r.workers} workers`,
      order.map((k) => ({
        part: r.seconds[k] / total,
        colour: R.causeColour(w.causes[k]),
        text: `${R.causeName(w.causes[k])}: ${R.percent(r.seconds[k] / total)}, ${R.duration(r.seconds[k])}`,
      })),
      `${r.name}: ${texts.join(', ')}`,
      R.percent(busy / total),
    );
  };
  const head = (text) =>
    R.make(
      'div',
      { class: 'barrow head' },
      R.make('span', { class: 'name' }, text),
      R.make('span', {}),
      R.make('span', { class: 'number' }, 'busy'),
    );
  const components = w.rows.filter((r) => r.rank < 0),
    workers = w.rows.filter((r) => r.rank >= 0);
  s.append(R.make('figure', { class: 'panel' }, head('components'), ...components.map(row)));
  const list = R.make('div', {});
  const orders = {
    'by rank': () => workers,
    'least busy first': () => workers.slice().sort((a, b) => share(b) - share(a)),
  };
  const share = (r) =>
    r.seconds.reduce((a, v, k) => a + (w.waits[k] ? v : 0), 0) / (r.seconds.reduce((a, b) => a + b, 0) || 1);
  const choice = R.make(
    'select',
    { 'aria-label': 'order', onchange: () => list.replaceChildren(...orders[choice.value]().map(row)) },
    ...Object.keys(orders).map((o) => R.make('option', {}, o)),
  );
  list.append(...workers.map(row));
  s.append(
    R.make(
      'figure',
      { class: 'panel' },
      R.make('div', { class: 'controls' }, choice),
      head('workers'),
      list,
      R.behind(() => [
        ['worker', 'rank', ...present.map((k) => R.causeName(w.causes[k]))],
        w.rows.map((r) => [
          r.name,
          r.rank < 0 ? 'all' : String(r.rank),
          ...present.map((k) => R.duration(r.seconds[k])),
        ]),
        'time by cause',
      ]),
    ),
  );
  if (w.efficiency && w.efficiency.length > 0) {
    s.append(
      R.make('h3', {}, 'parallel efficiency'),
      R.make(
        'p',
        { class: 'explanation' },
        "Balance is the mean work of a component's workers against the most of one. Use is the most work of one " +
          'against the whole time. Their product is the share of time in which the component works.',
      ),
      R.table(
        ['component', 'workers', 'balance', 'use', 'efficiency', 'most work'],
        w.efficiency.map((e) => [
          e.component,
          String(e.workers),
          R.percent(e.balance),
          R.percent(e.comm),
          R.percent(e.parallel),
          e.busiest,
        ]),
        'parallel efficiency',
      ),
    );
  }
  if (w.late && w.late.length > 0) {
    s.append(
      R.make('h3', {}, 'last to arrive'),
      R.make(
        'p',
        { class: 'explanation' },
        'All members of an operation wait for the last one. A member that is last much more often than by ' +
          'chance is slow.',
      ),
      R.table(
        ['operation', 'times', 'most often last', 'share', 'by chance', 'later than the next by'],
        w.late.map((l) => [
          l.name,
          String(l.operations),
          l.member,
          R.percent(l.share),
          R.percent(l.chance),
          R.duration(l.delay),
        ]),
        'last to arrive',
      ),
    );
  }
};
