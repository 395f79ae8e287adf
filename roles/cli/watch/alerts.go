package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

// alarmLine matches a line that begins like a warning or an error of a rank.
var alarmLine = regexp.MustCompile(
	`(?m)^(?:warning: |panic: |fatal error: |(?:\S+ )?rank \d+(?: host \S+)?(?: step \d+)?: |.* runs for more than )`)

// alerts finds the newest warning in the logs of the ranks.
type alerts struct {
	dir   string
	tails map[string]tail // the newest tail of each log
}

// A tail is the result of reading the end of a log.
type tail struct {
	size  int64
	at    time.Time
	alert string // "" if there is none
}

// mostTail is the number of bytes to read at the end of a log. mostLine is the maximum length of an alert in bytes.
const (
	mostTail = 64 << 10
	mostLine = 1 << 10
)

// newest returns the last alert of the most recently written log with an alert. Lines of logs have no time.
func (a *alerts) newest() (found Alert) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return found
	}
	type log struct {
		name string
		rank int
		info os.FileInfo
	}
	var logs []log
	for _, e := range entries {
		l := log{name: e.Name()}
		if n, _ := fmt.Sscanf(l.name, "rank-%d.log", &l.rank); n == 0 {
			continue
		}
		if l.info, err = e.Info(); err == nil && l.info.Mode().IsRegular() {
			logs = append(logs, l)
		}
	}
	slices.SortFunc(logs, func(x, y log) int {
		return cmp.Or(y.info.ModTime().Compare(x.info.ModTime()), cmp.Compare(x.name, y.name))
	})
	for _, l := range logs {
		t, known := a.tails[l.name]
		if !known || t.size != l.info.Size() || !t.at.Equal(l.info.ModTime()) {
			t = tail{l.info.Size(), l.info.ModTime(), lastAlert(filepath.Join(a.dir, l.name))}
			a.tails[l.name] = t
		}
		if t.alert != "" {
			return Alert{l.rank, t.alert, t.at}
		}
	}
	return found
}

// lastAlert returns the last alarming line at the end of a log, or "" if there is none.
func lastAlert(path string) string {
	text, cut, err := durable.Tail(path, mostTail)
	if err != nil {
		return ""
	}
	if cut { // drop the first line, which lacks its beginning
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	all := alarmLine.FindAllIndex(text, -1)
	if len(all) == 0 {
		return ""
	}
	line, _, _ := bytes.Cut(text[all[len(all)-1][0]:], []byte("\n"))
	return string(bytes.TrimSpace(line[:min(len(line), mostLine)]))
}
