package browser

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/rlinf/rlinf/internal/report"
	"github.com/rlinf/rlinf/internal/report/reporttest"
	"github.com/rlinf/rlinf/internal/test"
)

// openAll unfolds all that can be unfolded on a page.
const openAll = `document.querySelectorAll('details').forEach((d) => { d.open = true; })`

// large is a run of 1000 iterations on 8 ranks, with the spans of 23 iterations and two films.
func large(t testing.TB) []byte {
	return reporttest.PageOf(t, reporttest.RunFolder(t, 1000, 2), reporttest.Emulated(8, 1000, 50, 300))
}

// A page shows every section, without a message and without a request.
func TestPage(t *testing.T) {
	page := large(t)
	if len(page) > 5<<20 {
		t.Errorf("%d bytes, want at most 5 MiB", len(page))
	}
	b := open(t, page)
	b.expect(t, `[...document.querySelectorAll('section')].map((s) => s.id).join(' ')`,
		"summary curves phases timeline waits critical lag heat messages films next settings origin")
	b.expect(t, `document.querySelectorAll('canvas').length > 15`, "true")
	b.expect(t, `[...document.querySelectorAll('canvas.timeline, canvas.heat, .player canvas, .plot')]
		.every((c) => c.getAttribute('aria-label') && c.tabIndex === 0)`, "true")
	// Every chart also has its data as a table.
	b.expect(t, `document.querySelectorAll('figure.chart:not(:has(details.behind))').length`, "0")
	b.do(t, chromedp.Evaluate(openAll, nil), chromedp.WaitReady(`#curves details.behind table`, chromedp.ByQuery))
	b.expect(t, `document.querySelector('#curves details.behind tbody tr:last-child td').textContent`, "1000")
	// A zoom by the keyboard applies to all curves. The key 0 ends it.
	b.do(t, chromedp.Focus(`#curves .plot`, chromedp.ByQuery), chromedp.KeyEvent("+"))
	b.expect(t, `new Set(R.groups.curves.charts.map((c) => c.plot.scales.x.min)).size`, "1")
	b.expect(t, `R.groups.curves.charts[0].plot.scales.x.min > 1`, "true")
	b.do(t, chromedp.KeyEvent("0"))
	b.expect(t, `R.groups.curves.charts[1].plot.scales.x.min`, "1")
	// Charts over time and over environment steps, in dark mode and on paper.
	for _, axis := range []string{"hours", "envSteps", "iterations"} {
		b.do(t, chromedp.Click(`input[name=axis][value=`+axis+`]`, chromedp.ByQuery))
	}
	b.do(t, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: "dark"}}))
	b.expect(t, `R.colour('back')`, "#13171b")
	b.do(t, chromedp.Evaluate(`dispatchEvent(new Event('beforeprint'))`, nil))
	b.expect(t, `R.colour('text')`, "#1b2127")
	b.quiet(t)
	t.Logf("%d bytes, ready after %s ms", len(page), b.text(t, "document.documentElement.dataset.ready"))
}

// The page of a run that moved shows the moves after the phases.
func TestMovesInBrowser(t *testing.T) {
	dir := reporttest.RunFolder(t, 30, 0)
	reporttest.WriteFile(t, dir, "moves.jsonl", `{"step":20,"reason":"asked for","before":"{env: 0}","after":"{env: 1}"}`+"\n")
	b := open(t, reporttest.PageOf(t, dir))
	b.expect(t, `[...document.querySelectorAll('section')].map((s) => s.id).slice(0, 4).join(' ')`,
		"summary curves phases moves")
	b.expect(t, `[...document.querySelectorAll('#moves td')].slice(0, 4).map((c) => c.textContent).join('|')`,
		"20|0001-01-01 00:00:00|env 0 → 1|asked for")
	b.quiet(t)
}

// Every frame of a large timeline is drawn, and the page measures its time.
func TestTimelineFrames(t *testing.T) {
	b := open(t, timelinePage(t))
	b.expect(t, `document.querySelector('canvas.timeline').dataset.drawn >= 200000`, "true")
	got := strings.Fields(b.text(t, frames))
	if len(got) != 4 || got[0] != "60" {
		t.Fatalf("%q, want 60 frames and their times", got)
	}
	t.Logf("200,000 spans: %s frames of %s ms, 95 %% below %s ms, all below %s ms", got[0], got[1], got[2], got[3])
	// Keys move and zoom the timeline, and show the name of a worker.
	b.do(t, chromedp.Focus(`canvas.timeline`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowDown),
		chromedp.KeyEvent("+"))
	b.expect(t, `document.querySelector('#timeline .said').textContent.split(':')[0]`, "env 0, rank 0")
	b.quiet(t)
}

// timelinePage has 200,000 spans on 64 ranks in one iteration.
func timelinePage(t testing.TB) []byte {
	a := reporttest.Emulated(64, 4, 50, 1600)
	a.Windows = a.Windows[2:3]
	return reporttest.PageOf(t, reporttest.RunFolder(t, 4, 0), a)
}

// frames draws 60 frames, each with another zoom and position. It returns their number, and the mean, the 95 % quantile
// and the maximum of their times.
const frames = `(async () => {
	const canvas = document.querySelector('canvas.timeline'), times = [];
	const wheel = (options) => canvas.dispatchEvent(new WheelEvent('wheel', {
		bubbles: true, cancelable: true, clientX: canvas.getBoundingClientRect().left + 600, ...options }));
	for (let i = 0; i < 60; i++) {
		const before = canvas.dataset.frames;
		if (i % 2 === 0) wheel({ ctrlKey: true, deltaY: i < 30 ? -40 : 40 });
		else wheel({ shiftKey: true, deltaY: i % 4 === 1 ? 60 : -60 });
		await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
		if (canvas.dataset.frames !== before) times.push(Number(canvas.dataset.frameMs));
	}
	times.sort((a, b) => a - b);
	return [times.length, (times.reduce((a, b) => a + b) / times.length).toFixed(2), times[56], times[59]].join(' ');
})()`

// Texts of a run are shown as text, and never run.
func TestHostileTextsInBrowser(t *testing.T) {
	b := open(t, reporttest.PageOf(t, reporttest.HostileFolder(t), reporttest.HostileTrace()))
	b.expect(t, `typeof hacked`, "undefined")
	b.expect(t, `document.querySelectorAll('#page img, #page b, [onload], [onerror]').length`, "0")
	b.expect(t, `document.getElementById('title').textContent`, `<b>run" onload=hacked() x="`)
	b.do(t, chromedp.Evaluate(openAll, nil), chromedp.WaitReady(`#curves details.more canvas`, chromedp.ByQuery))
	b.expect(t, `document.body.textContent.includes('<img src=x onerror=hacked()>')`, "true")
	b.expect(t, `document.querySelectorAll('#page img, #page b').length`, "0")
	b.expect(t, `document.querySelectorAll('#rewards td')[1].textContent`, "100 %")
	b.quiet(t)
}

// A player stops, steps and seeks. Each frame is equal to the frame of the film.
func TestPlayer(t *testing.T) {
	b := open(t, reporttest.PageOf(t, reporttest.RunFolder(t, 2, 2)))
	const red = `(() => {
		const copy = new OffscreenCanvas(64, 64).getContext('2d', { willReadFrequently: true });
		copy.drawImage(document.querySelector('.player canvas'), 0, 0);
		return copy.getImageData(20, 20, 1, 1).data[0];
	})()`
	until := func(frame int) {
		t.Helper()
		at := strconv.Itoa(frame)
		b.do(t, chromedp.WaitReady(`.player canvas[data-frame="`+at+`"]`, chromedp.ByQuery))
		b.expect(t, red, strconv.Itoa(10*frame))
	}
	until(0)
	b.expect(t, `document.querySelector('.player select').selectedOptions[0].textContent`, "global step 1000")
	b.do(t, chromedp.Focus(`.player canvas`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight))
	until(1)
	b.do(t, chromedp.KeyEvent(kb.End))
	until(19)
	b.do(t, chromedp.KeyEvent(kb.ArrowLeft))
	until(18)
	b.do(t, chromedp.Evaluate(`(() => { const s = document.querySelector('.player input[type=range]'); s.value = 7;
		s.dispatchEvent(new Event('input')); })()`, nil))
	until(7)
	b.do(t, chromedp.KeyEvent(" "), chromedp.WaitReady(`.player canvas[data-frame="12"]`, chromedp.ByQuery),
		chromedp.KeyEvent(" "))
	b.expect(t, `document.querySelector('.player button').textContent`, "Play")
	b.do(t, chromedp.SetValue(`.player select`, "0", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector('.player select').dispatchEvent(new Event('change'))`, nil))
	until(0)
	b.quiet(t)
}

// Pages of damaged runs are drawn. Each run has one damage of metrics, and some of other files.
func TestDamagedInBrowser(t *testing.T) {
	damages := reporttest.Damages()
	metrics := slices.IndexFunc(damages, func(d reporttest.Damage) bool { return d.Name == "no status" })
	for i := range metrics {
		dir, wrong := reporttest.RunFolder(t, 30, 0), damages[i:i+1:i+1]
		for k := metrics + i; k < len(damages); k += metrics {
			wrong = append(wrong, damages[k])
		}
		for _, c := range wrong {
			c.Do(t, dir)
		}
		b := open(t, reporttest.PageOf(t, dir))
		said := b.text(t, `document.getElementById('problems').textContent`)
		for _, c := range wrong {
			if !strings.Contains(said, c.Says) {
				t.Errorf("%s: the page says %q, want %q", c.Name, said, c.Says)
			}
		}
		b.quiet(t)
	}
}

// A page of several runs has a curve with a band for each group, and the table.
func TestSeveralRunsInBrowser(t *testing.T) {
	runs := test.Must(report.GatherRuns([]string{reporttest.Sweep(t)}, reporttest.AnyReturn))(t)
	var page bytes.Buffer
	test.OK(t, report.WriteRuns(&page, runs))
	b := open(t, page.Bytes())
	b.expect(t, `document.querySelectorAll('#compare tbody tr').length`, "2")
	b.expect(t, `document.querySelector('#curves figcaption').textContent`, "eval/return")
	b.expect(t, `R.charts[0].plot.bands.length`, "2")
	b.expect(t, `document.querySelector('#keys tbody td').textContent`, "lr")
	b.quiet(t)
}

// BenchmarkWrite writes the page of 1000 iterations on 8 ranks with two films.
func BenchmarkWrite(b *testing.B) {
	dir, a := reporttest.RunFolder(b, 1000, 2), reporttest.Emulated(8, 1000, 50, 300)
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(reporttest.PageOf(b, dir, a))), "bytes")
	}
}

// BenchmarkReady shows the page of BenchmarkWrite.
func BenchmarkReady(b *testing.B) {
	page := large(b)
	var sum, n float64
	for b.Loop() {
		ms := test.Must(strconv.ParseFloat(open(b, page).text(b, "document.documentElement.dataset.ready"), 64))(b)
		sum, n = sum+ms, n+1
	}
	b.ReportMetric(sum/n, "ready-ms")
}

// BenchmarkFrame draws 200,000 spans on 64 ranks.
func BenchmarkFrame(b *testing.B) {
	tab := open(b, timelinePage(b))
	var sums [4]float64
	n := 0.0
	for b.Loop() {
		for i, word := range strings.Fields(tab.text(b, frames)) {
			v := test.Must(strconv.ParseFloat(word, 64))(b)
			sums[i] += v
		}
		n++
	}
	b.ReportMetric(sums[1]/n, "frame-ms")
	b.ReportMetric(sums[2]/n, "95%-ms")
	b.ReportMetric(sums[3]/n, "longest-ms")
}
