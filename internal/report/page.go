package report

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"path/filepath"
	"strings"
)

//go:embed page
var page embed.FS

// policy lets a page run its own scripts and styles, and show its own pictures. It forbids all requests.
const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

// scripts are the page's scripts, in the order in which they run.
var scripts = []string{"uplot/uPlot.iife.min.js", "data.js", "elements.js", "colours.js", "charts.js", "summary.js",
	"curves.js", "phases.js", "moves.js", "causes.js", "timeline.js", "waits.js", "critical.js", "grid.js", "heat.js",
	"messages.js", "films.js", "rewards.js", "answers.js", "settings.js", "runs.js", "start.js"}

// A document has the data of a page. A section without data is nil.
type document struct {
	Title     string          `json:"title"`
	Folder    string          `json:"folder"`
	State     string          `json:"state"`
	Facts     []fact          `json:"facts"`
	Sentences []sentence      `json:"sentences"`
	Problems  []string        `json:"problems"`
	Curves    *curvesData     `json:"curves"`
	Phases    *phasesData     `json:"phases"`
	Moves     *movesData      `json:"moves,omitempty"`
	Timeline  *timelineData   `json:"timeline"`
	Waits     *waitsData      `json:"waits"`
	Critical  []criticalData  `json:"critical"`
	Lag       *lagsData       `json:"lag"`
	Heat      *heatData       `json:"heat"`
	Messages  *messagesData   `json:"messages"`
	Films     []filmData      `json:"films"`
	Unseen    []string        `json:"unseen"`
	Rewards   *rewardsData    `json:"rewards"`
	Answers   []AnswerSamples `json:"answers"`
	Settings  []KeyValue      `json:"settings"`
	Origin    []fact          `json:"origin"`
	Logs      []LogTail       `json:"logs"`
	Next      []nextLine      `json:"next"`
}

// A fact is a figure or a text with a label.
type fact struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

// A nextLine is a line of `rlinf status`: a label, and a command or a path.
type nextLine struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// WriteRun writes the page of a run.
func WriteRun(w io.Writer, r *Run) error {
	p := new(packer)
	d := document{
		Title: plain(filepath.Base(r.Folder)), Folder: plain(r.Folder), State: r.state(), Facts: r.facts(),
		Sentences: r.sentences(), Problems: plains(r.Problems), Curves: r.curves(p), Phases: r.phases(p),
		Moves: r.moves(), Timeline: r.timelines(p), Waits: r.waits(), Heat: r.heat(p), Messages: r.messages(p),
		Unseen: plains(r.Unseen), Rewards: r.rewards(p), Answers: r.Answers, Settings: r.Settings, Origin: r.origin(),
		Logs: r.Logs, Next: r.next(),
	}
	if a, _ := r.lastAttempt(); a != nil && len(a.Windows) > 0 {
		d.Critical, d.Lag = critical(a), lags(a)
	}
	var films [][]byte
	for i := range r.Films {
		f := &r.Films[i]
		d.Films = append(d.Films, filmData{plain(f.Name), f.Every, len(f.PNG)})
		films = append(films, base64.StdEncoding.AppendEncode(nil, f.PNG))
	}
	return write(w, p, d.Title, d, films, r.fallback(&d))
}

// write writes a page with its document and its films. fallback is the HTML for browsers that run no scripts.
func write(w io.Writer, p *packer, title string, document any, films [][]byte, fallback []byte) error {
	data, err := p.encode(document)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	text := func(name string) []byte {
		b, readErr := page.ReadFile("page/" + name)
		if readErr != nil {
			panic(readErr) // the files are compiled into the program
		}
		return b
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<meta name=\"color-scheme\" content=\"light dark\">\n<title>%s</title>\n<link rel=\"icon\" href=\"data:,\">\n",
		policy, html.EscapeString(title+" · rlinf report"))
	fmt.Fprintf(&b, "<style>\n%s\n%s</style>\n", text("uplot/uPlot.min.css"), text("page.css"))
	b.WriteString("<noscript><style>#page{display:none}</style></noscript></head>\n<body>\n<noscript>\n")
	b.Write(fallback)
	b.WriteString("</noscript>\n")
	b.Write(text("page.html"))
	fmt.Fprintf(&b, "<!-- Licence of uPlot:\n%s-->\n", text("uplot/LICENSE"))
	fmt.Fprintf(&b, "<script type=\"text/plain\" id=\"data\">%s</script>\n", data)
	for i, f := range films {
		fmt.Fprintf(&b, "<script type=\"text/plain\" id=\"film-%d\">%s</script>\n", i, f)
	}
	for _, name := range scripts {
		fmt.Fprintf(&b, "<script>\n%s</script>\n", text(name))
	}
	b.WriteString("</body></html>\n")
	_, err = w.Write(b.Bytes())
	return err
}

// next returns the lines of `rlinf status`, except for the line about the state.
func (r *Run) next() (lines []nextLine) {
	label := ""
	for line := range strings.Lines(r.Next) {
		line = strings.TrimRight(plain(line), "\n")
		first, rest, _ := strings.Cut(line, " ")
		if first != "" {
			label = first
		}
		if rest = strings.TrimSpace(rest); rest != "" && label != "run" {
			lines = append(lines, nextLine{label, rest})
		}
	}
	return lines
}

func plains(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = plain(s)
	}
	return out
}
