package results

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// keptColumns are the first columns of a kept file. The columns of metrics follow them.
var keptColumns = []string{"seed", "step", "env/steps", "seconds"}

// keptForks is the end of the first comment line in a file of kept forks.
const keptForks = ", forks"

// Keep writes the rows of runs as CSV: the comment lines, a line of column names, and a line for each row. Numbers
// have six significant digits.
func Keep(w io.Writer, runs []Run, comment ...string) error {
	forks := !slices.ContainsFunc(runs, func(r Run) bool { return !r.Forked })
	for i, line := range comment {
		if i == 0 && forks {
			line += keptForks
		}
		if _, err := fmt.Fprintln(w, "#", line); err != nil {
			return err
		}
	}
	names := Metrics(runs)
	out := csv.NewWriter(w)
	out.Write(slices.Concat(keptColumns, names))
	for _, r := range runs {
		for _, row := range r.Rows {
			line := []string{strconv.FormatUint(r.Seed, 10), strconv.FormatInt(row.Step, 10),
				strconv.FormatFloat(row.EnvSteps, 'f', 0, 64), short(row.Seconds)}
			for _, name := range names {
				cell := ""
				if v, ok := row.Values[name]; ok {
					cell = short(v)
				}
				line = append(line, cell)
			}
			out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// ReadKept reads a file written by Keep and returns a Run for each seed. The task is the text before the first comma of
// the first comment.
func ReadKept(path string) ([]Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	task, forked := "", false
	if comment, ok := bytes.CutPrefix(text, []byte("# ")); ok {
		task = string(comment[:max(0, bytes.IndexAny(comment, ",\n"))])
		forked = bytes.HasSuffix(comment[:max(0, bytes.IndexByte(comment, '\n'))], []byte(keptForks))
	}
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment = '#'
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: expected a file of kept results: %w", path, err)
	}
	if len(head) < len(keptColumns) || !slices.Equal(head[:len(keptColumns)], keptColumns) {
		return nil, fmt.Errorf("%s:1: columns %s: expected %s, then metrics: %w", path, strings.Join(head, ","),
			strings.Join(keptColumns, ","), ErrNoRun)
	}
	var runs []Run
	for {
		line, err := in.Read()
		if err == io.EOF {
			return runs, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		numbers := make([]float64, len(line))
		for i, cell := range line {
			if numbers[i], err = strconv.ParseFloat(cell, 64); err != nil && cell != "" {
				at, _ := in.FieldPos(0)
				return nil, fmt.Errorf("%s:%d: %s: %q: expected a number", path, at, head[i], cell)
			} else if cell == "" {
				numbers[i] = math.NaN()
			}
		}
		seed := uint64(numbers[0])
		at := slices.IndexFunc(runs, func(r Run) bool { return r.Seed == seed })
		if at < 0 {
			at = len(runs)
			runs = append(runs, Run{Name: fmt.Sprintf("%s, seed %d", filepath.Base(path), seed), Seed: seed, Task: task,
				Forked: forked, Iterations: true}) // false after a row whose environment steps differ from its step
		}
		row := MetricsLine{Step: int64(numbers[1]), EnvSteps: numbers[2], Seconds: numbers[3],
			Values: map[string]float64{}}
		runs[at].Iterations = runs[at].Iterations && numbers[2] == numbers[1]
		for i := len(keptColumns); i < len(line); i++ {
			if line[i] != "" {
				row.Values[head[i]] = numbers[i]
			}
		}
		runs[at].Rows = append(runs[at].Rows, row)
	}
}
