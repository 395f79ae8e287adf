// Gives the colours of the page's style sheet to canvases, and draws them anew when the colours change.
'use strict';

// R.colour returns a colour of the style sheet, such as #0072b2.
R.colour = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue('--' + name)
    .trim();

// R.rgb returns the red, green and blue of a colour of the style sheet.
R.rgb = function (name) {
  const n = parseInt(R.colour(name).slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
};

// R.series is how many colours curves have.
R.series = 8;
R.seriesColour = (i) => R.colour('series-' + (i % R.series));

// R.redraws has the functions that draw canvases.
R.redraws = [];
R.redraw = () => R.redraws.forEach((f) => f());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', R.redraw);
addEventListener('beforeprint', () => {
  document.documentElement.classList.add('printing');
  R.redraw();
});
addEventListener('afterprint', () => {
  document.documentElement.classList.remove('printing');
  R.redraw();
});
