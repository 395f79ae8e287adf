// Draws the page. The root element has data-ready when all is drawn: the milliseconds since navigation began. It has
// data-error if something failed.
'use strict';

R.fail = function (e) {
  const text = String((e && e.stack) || e);
  document.documentElement.setAttribute('data-error', text);
  const box = document.getElementById('failure');
  box.hidden = false;
  box.querySelector('pre').textContent = text;
};
addEventListener('error', (e) => R.fail(e.error || e.message));
addEventListener('unhandledrejection', (e) => R.fail(e.reason));

// R.drawRun draws the page of one run.
R.drawRun = async function (d) {
  R.drawSummary(d);
  R.drawCurves(d);
  R.drawPhases(d);
  R.drawMoves(d);
  R.drawTimeline(d);
  R.drawWaits(d);
  R.drawCritical(d);
  R.drawLags(d);
  R.drawHeat(d);
  R.drawMessages(d);
  await R.drawFilms(d);
  R.drawRewards(d);
  R.drawAnswers(d);
  R.drawNext(d);
  R.drawSettings(d);
  R.drawOrigin(d);
};

(async function () {
  try {
    const d = await R.load();
    if (d.several) R.drawRuns(d);
    else await R.drawRun(d);
    document.documentElement.setAttribute('data-ready', performance.now().toFixed(0));
  } catch (e) {
    R.fail(e);
  }
})();
