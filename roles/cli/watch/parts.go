package watch

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/loop"
)

// labelWidth is the width of the first column.
const labelWidth = 9

// labelled returns a line with a label, a text, and a note at the right end.
func labelled(label, text, note string, width int) ScreenLine {
	return ScreenLine{sides(alignLeft(label, labelWidth)+clean(text), note, width), Plain}
}

// ageText returns the age of a figure that was measured at t, such as "20s old". It returns "" if State.Age reports no
// age.
func ageText(s *State, t time.Time) string {
	if age, ok := s.Age(t); ok {
		return metrics.Clock(age) + " old"
	}
	return ""
}

// header shows the name of the run, its status and its progress.
func header(s *State, width int) []ScreenLine {
	title := ScreenLine{Style: Strong}
	status := string(s.Status)
	switch {
	case s.Status == runfolder.Failed, s.Status == runfolder.Dead:
		title.Style = Alarm
	case s.Status == runfolder.Running && !s.Started.IsZero():
		status += " for " + metrics.Clock(max(s.Now.Sub(s.Started), 0))
	}
	if s.Over() && !s.Updated.IsZero() {
		status += " " + metrics.Clock(max(s.Now.Sub(s.Updated), 0)) + " ago"
	}
	title.Text = sides(s.Run, status+"   "+s.Now.Format("15:04:05"), width)
	lines := []ScreenLine{title, progress(s, width)}
	work := ""
	if !s.Over() && s.Live.Work != "" {
		work = "now: " + s.Live.Work
		if age := ageText(s, s.Live.Time); age != "" {
			work += ", " + age
		}
	}
	if s.Status == runfolder.Dead {
		work = "it was killed, or its node failed"
	}
	checkpoint := ""
	if s.Checkpoint != "" {
		checkpoint = "checkpoint " + filepath.Base(s.Checkpoint)
	}
	if work+checkpoint != "" {
		lines = append(lines, ScreenLine{sides(work, checkpoint, width), Plain})
	}
	if s.Crowd != "" {
		lines = append(lines, ScreenLine{cut(clean(s.Crowd+": "+runfolder.CrowdAdvice), width), Alarm})
	}
	return lines
}

// progress shows the steps, and the remaining time.
func progress(s *State, width int) ScreenLine {
	text, note := stepText(*s), ""
	if left := s.Left(); left > 0 {
		end := s.Now.Add(left)
		note = fmt.Sprintf("ETA %s (%s)", metrics.Clock(left), end.Format(timeLayout(left)))
	}
	if s.Steps <= 0 {
		return labelled(text, "", note, width)
	}
	share := float64(s.Step()) / float64(s.Steps)
	text += "  "
	number := "  " + alignRight(figures.Percent(share), 5)
	room := width - columns(text) - columns(number) - 2 - len("ETA 99h59m (15:04)")
	return ScreenLine{sides(text+bar(share, max(room, 0))+number, note, width), Plain}
}

// timeLayout returns the layout (see time.Format) for a time that is d in the future.
func timeLayout(d time.Duration) string {
	if d < 20*time.Hour {
		return "15:04"
	}
	return "Jan 2 15:04"
}

func stepText(s State) string {
	if s.Steps > 0 {
		return fmt.Sprintf("step %d/%d", s.Step(), s.Steps)
	}
	return fmt.Sprintf("step %d", s.Step())
}

// figureName returns the short name of a headline metric, for a narrow column.
func figureName(metric string) string {
	section, rest, _ := strings.Cut(metric, "/")
	switch {
	case section == "eval" && rest == "return":
		return "eval"
	case metric == "eval/loss": // training has a loss, too
		return "val loss"
	case metric == "rollout/rewards":
		return "reward"
	}
	return metric[strings.LastIndexByte(metric, '/')+1:]
}

// training shows the curves of the headline metrics, and the rate of work.
func training(s *State, width int) (lines []ScreenLine) {
	names := []string{"eval/return", "eval/accuracy", "eval/loss"}
	if s.Metric != "" {
		names = append([]string{s.Metric}, names...)
	}
	for _, name := range names {
		c := s.Record.Curves[name]
		if n := len(c.Values); n > 0 {
			value := fmt.Sprintf("%-8.4g ", c.Values[n-1])
			note := fmt.Sprintf("%.4g to %.4g", c.Least, c.Most)
			if age := ageText(s, s.Record.At); age != "" && name == s.Metric {
				note += ", " + age
			}
			room := width - labelWidth - len(value) - columns(note) - 2
			lines = append(lines, labelled(figureName(name), value+sparkline(c.Values, min(room, len(c.Values))), note,
				width))
		}
	}
	if s.Rate != nil {
		lines = append(lines, labelled("rate", metrics.Short(*s.Rate)+" "+s.RateUnit, "", width))
	}
	if len(lines) == 0 {
		lines = append(lines, labelled("return", "no metrics yet", "", width))
	}
	return lines
}

// phases shows the time of each phase on its slowest rank.
func phases(s *State, width int) []ScreenLine {
	step, all := s.Phases()
	if len(all) == 0 {
		return nil
	}
	title := fmt.Sprintf("phases of step %d, the slowest rank of each", step)
	if all[0].Name == loop.Phases[loop.WholeStep] {
		title = fmt.Sprintf("step %d took %s; its phases, the slowest rank of each", step, seconds(all[0].Seconds))
	}
	if _, usual := s.times(); usual {
		title = "usual " + title
	}
	lines := []ScreenLine{{sides(title, ageText(s, all[0].At), width), Strong}}
	percents := shares(all)
	row := func(i int, name string, took float64) {
		text := "  " + alignLeft(name, 20) + alignRight(seconds(took), 8) + "  "
		if percents != nil {
			share := float64(percents[i]) / 100
			text += bar(share, max(min(width, 120)-columns(text)-6-14, 0)) + " " + alignRight(figures.Percent(share), 5)
		}
		lines = append(lines, ScreenLine{text, Plain})
	}
	rest := all[0].Seconds
	phases := slices.DeleteFunc(slices.Clone(all),
		func(p PhaseTime) bool { return p.Name == loop.Phases[loop.WholeStep] })
	for i, p := range phases {
		row(i, p.Name, p.Seconds)
		rest -= p.Seconds
		if took, ok := s.Simulated(); ok && p.Name == loop.Phases[loop.GenerateRollouts] {
			lines = append(lines, ScreenLine{"    of it simulate    " + alignRight(seconds(took), 8), Plain})
		}
	}
	if n := len(phases); percents != nil && percents[n] > 0 {
		row(n, "rest", rest)
	}
	return lines
}

// cellWidth is the minimum width of a column in a window with several columns of ranks.
const cellWidth = 92

// ranks shows the ranks that wait most, in at most limit lines.
func ranks(s *State, width, limit int) []ScreenLine {
	all := s.Waiting()
	if len(all) == 0 {
		if len(s.Live.Ranks) > 1 {
			return []ScreenLine{labelled("ranks", "the last step had an evaluation; rlinf report has usual waits",
				"", width)}
		}
		if s.Over() || len(s.Live.Ranks) > 0 {
			return nil
		}
		return []ScreenLine{labelled("ranks", "no figures of ranks: "+cmp.Or(s.NoLive, "no iteration has ended"), "",
			width)}
	}
	across := 1
	if len(all) > limit-1 {
		across = max(width/cellWidth, 1)
	}
	shown := min((limit-1)*across, len(all))
	rows := (shown + across - 1) / across
	title := fmt.Sprintf("the %d of %d ranks that wait most", shown, len(all))
	if shown == len(all) {
		title = fmt.Sprintf("%d ranks by share of waiting", shown)
	}
	least := all[len(all)-1]
	title += fmt.Sprintf("; median %s; least: rank %d, %s", figures.Percent(all[len(all)/2].Share), least.Rank,
		figures.Percent(least.Share))
	newest := slices.MaxFunc(all, func(a, b Waits) int { return a.At.Compare(b.At) }).At
	lines := []ScreenLine{{sides(title, ageText(s, newest), width), Strong}}
	host := 0
	for _, name := range s.Hosts {
		host = max(host, min(columns(clean(name)), 16))
	}
	for i := range rows {
		var cells []string
		for at := i; at < shown; at += rows {
			cells = append(cells, alignLeft(rankCell(s, all[at], newest, width/across, host), width/across-1))
		}
		lines = append(lines, ScreenLine{strings.Join(cells, " "), Plain})
	}
	return lines
}

// rankCell returns a text about a rank: its host, its share of waiting, and the causes. If another rank has newer
// figures, the text also has the age of this rank's figures.
func rankCell(s *State, w Waits, newest time.Time, width, host int) string {
	text := fmt.Sprintf("  rank %-4d", w.Rank)
	if host > 0 && width >= 60 {
		text += " " + alignLeft(s.Hosts[w.Rank], host)
	}
	text += " " + alignRight(figures.Percent(w.Share), 5) + " "
	if width >= 60 {
		text += bar(w.Share, min(width/6, 20)) + " "
	}
	causes := 3
	if width < cellWidth-4 {
		causes = 2
	}
	text += " " + w.causes(causes)
	if newest.Sub(w.At) >= oldAfter {
		return sides(text, ageText(s, w.At), width-1)
	}
	return text
}

// queues shows the channels that fit in one line, with their numbers of items.
func queues(s *State, width int) []ScreenLine {
	if len(s.Live.Queues) == 0 {
		return nil
	}
	var oldest time.Time
	words := make([]string, 0, len(s.Live.Queues))
	for _, q := range s.Live.Queues {
		words = append(words, fmt.Sprintf("%s %d", q.Channel, q.Items))
		if oldest.IsZero() || q.At.Before(oldest) {
			oldest = q.At
		}
	}
	return []ScreenLine{labelled("queues", strings.Join(words, " · "), ageText(s, oldest), width)}
}

// lastMove shows the newest move.
func lastMove(s *State, width int) []ScreenLine {
	if s.LastMove == nil {
		return nil
	}
	return []ScreenLine{labelled("moved", s.movedText(), "", width)}
}

// movedText describes the last move: time, change, cost and reason.
func (s *State) movedText() string {
	ago := ""
	if age := s.Now.Sub(s.LastMove.Time); age > 0 {
		ago = ", " + metrics.Clock(age) + " ago"
	}
	m := s.LastMove
	return fmt.Sprintf("after step %d%s: %s; %s; %s", m.Step, ago, m.Change(), m.Cost(), m.Reason)
}

// logs shows the newest warning, and errors of reading the run's folder.
func logs(s *State, width, height int) (lines []ScreenLine) {
	if s.Problem != "" {
		lines = append(lines, labelled("problem", s.Problem, "", width))
	}
	if s.Alert.Text != "" {
		text := s.Alert.source()
		if age := s.Now.Sub(s.Alert.At); age > 0 {
			text += ", " + metrics.Clock(age) + " ago"
		}
		text = clean(text + ": " + s.Alert.Text)
		most := 1
		if height >= 30 {
			most = 3
		}
		for i := 0; i < most && text != ""; i++ {
			label, room := "", width-labelWidth
			if i == 0 {
				label = "log"
			}
			head := text
			if columns(text) > room && i < most-1 {
				head = strings.TrimSuffix(cut(text, room+1), "…")
			}
			text = text[len(head):]
			lines = append(lines, ScreenLine{alignLeft(label, labelWidth) + cut(head, room), Alarm})
		}
	}
	return lines
}

// footer shows the keys that end rlinf watch, and the age of the live figures.
func footer(s *State, width int) []ScreenLine {
	note := ""
	if !s.Over() && !s.Live.Time.IsZero() {
		if age := ageText(s, s.Live.Time); age != "" {
			note = "live.json is " + age
		}
	}
	return []ScreenLine{{sides("q or Ctrl-C leaves", note, width), Faint}}
}
