package watch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/cli/args"
)

// A folder is a run's folder that a test fills.
type folder struct {
	t   *testing.T
	dir string
}

// newFolder returns the folder of a run that has this status.
func newFolder(t *testing.T, status runfolder.Status) folder {
	f := folder{t, t.TempDir()}
	f.write("config.yaml", "{}")
	f.write("STATUS", string(status)+"\n")
	return f
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// write replaces a file.
func (f folder) write(name, text string) {
	f.t.Helper()
	err := os.MkdirAll(filepath.Dir(f.path(name)), 0o777)
	if err == nil {
		err = durable.WriteFile(f.path(name), []byte(text))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// extend appends to metrics.jsonl.
func (f folder) extend(text string) {
	f.t.Helper()
	out, err := os.OpenFile(f.path("metrics.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err == nil {
		_, err = out.WriteString(text)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		f.t.Fatal(err)
	}
}

// clockOf returns a function that reads the run, each time 10 seconds later.
func clockOf(t *testing.T, r *Reader) func() State {
	now := time.Now()
	return func() State {
		t.Helper()
		s := test.Must(r.Read(now))(t)
		now = now.Add(10 * time.Second)
		return s
	}
}

// TestReaderFollowsMetrics: new lines are added. Cut and damaged lines, nulls and lines without times do no harm. A
// file that was replaced is read anew.
func TestReaderFollowsMetrics(t *testing.T) {
	f := newFolder(t, runfolder.Done)
	read := clockOf(t, NewReader(f.dir))
	if s := read(); s.Step() != 0 || len(s.Record.Curves) != 0 || s.NoLive == "" {
		t.Errorf("without metrics: %+v", s)
	}
	f.extend(`{"step":1,"time":100.5,"env/return":4,"time/step":2,"time/actor_training":1.5,"x":null}` + "\n")
	before := read()
	f.extend("damaged\n" + `{"step":2,"eval/return":9}` + "\n" + `{"step":3,"time/step":null,"env/ret`)
	s := read()
	if c := s.Record.Curves["env/return"]; s.Record.Step != 2 || s.Record.Newest.Step != 1 || len(c.Values) != 1 ||
		s.Record.Newest.Seconds["actor_training"] != 1.5 || s.Record.Curves["eval/return"].Values[0] != 9 {
		t.Errorf("%+v", s.Record)
	}
	f.extend(`urn":7}` + "\n" + `{"step":4,"env/return":5}` + "\n")
	if s = read(); s.Record.Step != 4 || len(s.Record.Curves["env/return"].Values) != 3 {
		t.Errorf("%+v", s.Record)
	}
	if len(before.Record.Curves["env/return"].Values) != 1 || before.Record.At.UnixMilli() != 100500 {
		t.Errorf("an older state has changed: %+v", before.Record)
	}
	f.write("metrics.jsonl", `{"step":1,"env/return":-1}`+"\n")
	if s = read(); s.Record.Step != 1 || s.Record.Curves["env/return"].Least != -1 || s.Record.Newest.Seconds != nil {
		t.Errorf("after a new start: %+v", s.Record)
	}
	test.OK(t, os.Remove(f.path("metrics.jsonl")))
	if s = read(); s.Step() != 0 || len(s.Record.Curves) != 0 {
		t.Errorf("after the file is gone: %+v", s.Record)
	}
}

// TestReaderOfLive: live.json may be missing, cut, or from an earlier start. A cut file keeps the older figures.
func TestReaderOfLive(t *testing.T) {
	f := newFolder(t, runfolder.Done)
	f.write("ranks.jsonl", `{"rank":0,"host":"a"}`+"\nx\n"+`{"rank":1,"host":"b"}`+"\n"+`{"rank":2,"ho`)
	read := clockOf(t, NewReader(f.dir))
	f.write("live.json", `{"step": 4`)
	if s := read(); s.NoLive != "live.json is damaged" || len(s.Hosts) != 2 || s.Hosts[1] != "b" {
		t.Errorf("%q, hosts %v", s.NoLive, s.Hosts)
	}
	live := trace.Live{Time: time.Unix(2000, 0), Step: 5, Ranks: []trace.Waiting{{Rank: 0}, {Rank: 1,
		Waits: map[trace.Cause]float64{trace.Gradient: 0.25, trace.Weights: 0.5, trace.Working: 0.25}}}}
	test.OK(t, live.Write(f.path("live.json")))
	s := read()
	if w := s.Waiting(); s.NoLive != "" || s.Step() != 5 || len(w) != 2 || w[0].Share != 0.75 ||
		w[0].causes(2) != "weights 50 %, gradient 25 %" {
		t.Errorf("%q, %+v", s.NoLive, s.Live)
	}
	f.write("live.json", `{"step": 6`)
	if s := read(); s.NoLive != "" || s.Step() != 5 {
		t.Errorf("%q, %+v", s.NoLive, s.Live)
	}
	f.write("provenance.json", `[{"started":"2026-01-01T00:00:00Z"}]`)
	test.OK(t, live.Write(f.path("live.json")))
	if s := read(); s.NoLive != "live.json is from an earlier start of the run" || s.Step() != 0 {
		t.Errorf("%q, %+v", s.NoLive, s.Live)
	}
}

// TestReaderOfLogs: the newest warning is the last alarming line of the log that was written last.
func TestReaderOfLogs(t *testing.T) {
	f := newFolder(t, runfolder.Running)
	read := clockOf(t, NewReader(f.dir))
	now := time.Now()
	for i, c := range []struct{ log, text, want string }{
		{"rank-0000.log", "running without MPI: 8 ranks in one process\n", ""},
		{"rank-0011.log", "warning: one\nthe warning: not this\nwarning: two\n\ngoroutine 7 [running]:\n",
			"11 warning: two"},
		{"rank-0003.log", "actor[0] rank 3 host a step 5: channel \"obs\": closed\nrun  logs/x: failed\n",
			"3 actor[0] rank 3 host a step 5: channel \"obs\": closed"},
		{"rank-0004.log", "waiting for the solvers\n", "3 actor[0] rank 3 host a step 5: channel \"obs\": closed"},
		{"rank-0000.log", "panic: x" + strings.Repeat("y", 5000), "0 panic: x" + strings.Repeat("y", mostLine-8)},
		{"rank-0000.log", strings.Repeat("warning: z\n", 1<<16) + "end\n", "0 warning: z"},
		{"other.log", "warning: other\n", "0 warning: z"},
	} {
		name := filepath.Join("logs", c.log)
		f.write(name, c.text)
		at := now.Add(time.Duration(i) * time.Second)
		test.OK(t, os.Chtimes(f.path(name), at, at))
		if a := read().Alert; c.want != strings.TrimSpace(fmt.Sprintf("%d %s", a.Rank, a.Text)) && c.want+a.Text != "" {
			t.Errorf("%s: %d %q, want %q", c.log, a.Rank, a.Text, c.want)
		}
	}
}

// TestOneRun: an argument that does not name exactly one run is an error with the path.
func TestOneRun(t *testing.T) {
	f := newFolder(t, runfolder.Done)
	logs, name := filepath.Split(f.dir)
	none := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{f.dir}, ""}, {nil, "folder of one run"}, {[]string{f.dir, f.dir}, "folder of one run"},
		{[]string{none}, none + ": expected the folder of a run"},
		{[]string{none + "/no"}, none + "/no: no such folder"},
		{[]string{logs}, "such as " + filepath.Join(logs, name)},
	} {
		dir, err := OneRun(c.args)
		good := err == nil && dir == f.dir
		if c.want != "" {
			good = err != nil && strings.Contains(err.Error(), c.want)
		}
		if !good {
			t.Errorf("%q: %q, %v, want %q", c.args, dir, err, c.want)
		}
	}
}

// TestFollow: without a terminal there is a line for each change, until the run ends.
func TestFollow(t *testing.T) {
	f := newFolder(t, runfolder.Running)
	own, err := runfolder.Open(f.dir, "") // this process is the run
	test.OK(t, err)
	f.write("provenance.json", `[{"iterations": 3}]`)
	f.extend(`{"step":1,"env/return":4,"time/step":2,"time/env_steps_per_second":1234}` + "\n")
	f.write("logs/rank-0002.log", "warning: \x1b[31mred\n")
	var out bytes.Buffer
	sleeps := 0
	r := NewReader(f.dir)
	err = follow(r, &out, func(time.Duration) {
		if sleeps++; sleeps > 5 {
			t.Fatal("does not end")
		}
		r.looked, r.scanned = time.Unix(1, 0), time.Unix(1, 0) // so that no time needs to pass
		switch sleeps {
		case 2:
			f.extend(`{"step":3,"env/return":5.5,"time/step":2}` + "\n")
			f.write("moves.jsonl", `{"step":2,"time":"9999-01-01T00:00:00Z","reason":"\u001bme","before":"{env: 0}",`+
				`"after":"{env: 1}","seconds":2,"bytes":7,"members":1}`+"\n")
		case 4:
			test.OK(t, errors.Join(own.SetStatus(runfolder.Done), own.Close()))
		}
	})
	want := "rank 2: warning: \\x1b[31mred\n" +
		"running · step 1/3 · return 4 · 1.23k env steps/s · ETA 4s\n" +
		"moved after step 2: env 0 → 1; 2 s, 1 member, 7 B sent; \\x1bme\n" +
		"running · step 3/3 · return 5.5 · 1.23k env steps/s\n" +
		"done · step 3/3 · return 5.5 · 1.23k env steps/s\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, out.String(), want)
	}
}

// TestFollowABeginning: the command may be started beside a job that has not begun its run, or resumes one. It waits as
// long as the job holds the folder.
func TestFollowABeginning(t *testing.T) {
	f := newFolder(t, runfolder.Done)
	f.extend(`{"step":1,"env/return":4}` + "\n")
	own, err := runfolder.Open(f.dir, "")
	test.OK(t, err)
	test.OK(t, os.Remove(filepath.Join(f.dir, "STATUS")))
	var out bytes.Buffer
	sleeps := 0
	r := NewReader(f.dir)
	err = follow(r, &out, func(time.Duration) {
		sleeps++
		r.looked = time.Unix(1, 0)
		var err error
		switch sleeps {
		case 100:
			err = own.SetStatus(runfolder.Checkpointed) // as of an earlier job
		case 200:
			err = own.SetStatus(runfolder.Running)
		case 201:
			err = own.SetStatus(runfolder.Done)
		case 202:
			err = own.Close()
		case 203:
			err = errors.New("does not end")
		}
		test.OK(t, err)
	})
	want := "not begun · step 1 · return 4\n" + f.dir + ": waiting for the job that holds the folder\n" +
		"checkpointed · step 1 · return 4\nrunning · step 1 · return 4\ndone · step 1 · return 4\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, out.String(), want)
	}
}

// TestFollowNothing: without a job, the command waits for 30 seconds, and says so.
func TestFollowNothing(t *testing.T) {
	f := newFolder(t, runfolder.Done)
	test.OK(t, os.Remove(filepath.Join(f.dir, "STATUS")))
	var out bytes.Buffer
	sleeps := 0
	err := follow(NewReader(f.dir), &out, func(time.Duration) { sleeps++ })
	if err == nil || !strings.HasSuffix(err.Error(), f.dir+": the run has not begun; waited 30s for a job") ||
		sleeps != 30 || !strings.HasSuffix(out.String(), f.dir+": the run has not begun; waiting 30s for a job\n") {
		t.Errorf("%v after %d reads, output %s", err, sleeps, out.String())
	}
}

// TestAwaitRun: a folder may be missing or empty when the command begins. A folder with other files is refused at once,
// unless a job holds it, and so is a file.
func TestAwaitRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs", "run")
	for _, c := range []struct {
		appears int // the number of reads before the run appears; 0 means never
		empty   bool
		held    bool
		sleeps  int
		err     string
	}{
		{0, false, false, 30, dir + ": no such folder; waited 30s for a job"},
		{0, true, false, 30, dir + ": expected the folder of a run, or one with runs in it; waited 30s for a job"},
		{7, false, false, 7, ""},
		{7, true, false, 7, ""},
		{100, false, true, 100, ""},
	} {
		os.RemoveAll(dir)
		if c.empty {
			test.OK(t, os.MkdirAll(dir, 0o777))
		}
		if c.held {
			own := test.Must(runfolder.Open(dir, ""))(t)
			t.Cleanup(func() { own.Close() })
		}
		var out bytes.Buffer
		sleeps := 0
		got, err := awaitRun([]string{dir}, &out, func(time.Duration) {
			if sleeps++; sleeps == c.appears {
				test.OK(t, errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, "config.yaml"), nil,
					0o666)))
			}
		})
		if sleeps != c.sleeps || c.err == "" && (got != dir || err != nil) || c.err != "" && (err == nil ||
			err.Error() != c.err) || strings.Count(out.String(), "waiting") != 1 {
			t.Errorf("%+v: %q, %v after %d reads, output %s", c, got, err, sleeps, out.String())
		}
	}
	file := filepath.Join(t.TempDir(), "notes")
	test.OK(t, os.WriteFile(file, nil, 0o666))
	for _, dirs := range [][]string{{dir, "b"}, {file}, {filepath.Dir(file)}} {
		if _, err := awaitRun(dirs, nil, nil); err == nil {
			t.Errorf("%q: no error", dirs)
		}
	}
}

// TestFollowWithoutReader: the command ends when nobody reads its lines.
func TestFollowWithoutReader(t *testing.T) {
	f := newFolder(t, runfolder.Running)
	own, err := runfolder.Open(f.dir, "")
	test.OK(t, err)
	defer own.Close()
	err = follow(NewReader(f.dir), args.NewWriter(gone{}), func(time.Duration) { t.Fatal("waits") })
	if err != nil {
		t.Error(err)
	}
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, fmt.Errorf("write: %w", syscall.EPIPE) }
