// Shows the moves of a job to other ranks.
'use strict';

R.drawMoves = function (d) {
  const m = d.moves;
  if (!m) return;
  const s = R.section(
    'moves',
    'Where has it moved, and did that help?',
    'Moves',
    'The job moved components to other ranks while it ran. Metrics do not depend on that. The times of an iteration ' +
      'are medians of up to 20 lines of metrics before and after a move.' +
      (m.left ? ` The page shows the newest moves, and leaves out ${R.figure(m.left)} older ones.` : ''),
  );
  s.append(
    R.table(
      ['after iteration', 'time, UTC', 'what moved', 'why', 'cost', 'iteration before', 'after', 'predicted'],
      m.rows.map((r) => [
        String(r.step),
        r.time,
        R.make('code', {}, r.change),
        r.reason,
        r.cost,
        r.before || '–',
        r.after || '–',
        r.predicted || '–',
      ]),
      'moves',
    ),
  );
};
