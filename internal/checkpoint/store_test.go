package checkpoint_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
)

var config = []byte("algorithm:\n  gamma: 0.99\n")

func TestSaveThenLoad(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	want := map[string][]byte{"actor": pattern(3<<20, 1), "empty": nil, "counters": []byte("7")}
	dir := test.Must(s.Save(checkpoint.Info{Step: 40, Ranks: 8, Config: config},
		checkpoint.BytesFile("actor", want["actor"]), checkpoint.BytesFile("empty", nil),
		checkpoint.BytesFile("counters", want["counters"])))(t)
	for _, from := range []string{dir, filepath.Join(filepath.Dir(dir), "latest")} {
		c := test.Must(checkpoint.Load(from))(t)
		if c.Step != 40 || c.Ranks != 8 ||
			!slices.Equal(c.Files(), []string{"config.yaml", "actor", "empty", "counters"}) {
			t.Errorf("step %d, %d ranks, files %v", c.Step, c.Ranks, c.Files())
		}
		for name, content := range want {
			if got, err := c.Read(name); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: %d bytes, %v, want the %d that were saved", name, len(got), err, len(content))
			}
		}
		test.Fails(t, test.Err(c.Read("critic")), "no file critic", "a file that is not there")
	}
}

func TestStoreKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 3)
	for step := int64(5); step <= 40; step += 5 {
		save(t, s, step)
	}
	want(t, dir, "global_step_30", "global_step_35", "global_step_40", "latest")
	if got, _ := os.Readlink(filepath.Join(dir, "latest")); got != "global_step_40" {
		t.Errorf("latest names %s, want global_step_40", got)
	}
}

func TestSaveOfAStepThatIsThereChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1)
	save(t, s, 5)
	before := test.Must(os.Stat(filepath.Join(dir, "global_step_5")))(t)
	save(t, s, 5)
	if after, err := os.Stat(filepath.Join(dir, "global_step_5")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the folder was written again (%v)", err)
	}
}

// A damage of a checkpoint, and a part of the error.
type damage struct {
	name   string
	damage func(dir string) error
	want   string
}

// newestSkips damages the newest of two checkpoints. Newest then returns the older one, and the next Save of the same
// step replaces the damaged one.
func newestSkips(t *testing.T, damages []damage) {
	t.Helper()
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, 0)
			save(t, s, 10)
			damaged := save(t, s, 20)
			test.OK(t, c.damage(damaged))
			got, rejected, err := s.Newest()
			if err != nil || got == nil || got.Step != 10 {
				t.Fatalf("got %+v, %v, want the checkpoint of step 10", got, err)
			}
			if len(rejected) != 1 || !strings.Contains(rejected[0].Error(), damaged) ||
				!strings.Contains(rejected[0].Error(), c.want) {
				t.Errorf("rejected %v, want %s with %q", rejected, damaged, c.want)
			}
			if save(t, s, 20); errors.Join(load(damaged)) != nil {
				t.Errorf("the damaged checkpoint was not replaced by the next of its step: %v", load(damaged))
			}
		})
	}
}

// TestNewestSkipsDamagedFiles: a checkpoint with a changed file, or with a file of another kind, is rejected.
func TestNewestSkipsDamagedFiles(t *testing.T) {
	newestSkips(t, []damage{
		{"bit flipped", func(dir string) error {
			return rewrite(dir, "actor", func(b []byte) []byte {
				b[100] ^= 1
				return b
			})
		}, "actor: checksum crc32c:"},
		{"truncated", func(dir string) error {
			return os.Truncate(filepath.Join(dir, "actor"), 999)
		}, "actor: 999 bytes, expected 1000"},
		{"grown", func(dir string) error {
			return rewrite(dir, "actor", func(b []byte) []byte {
				return append(b, 0)
			})
		}, "actor: 1001 bytes, expected 1000"},
		{"file missing", func(dir string) error {
			return os.Remove(filepath.Join(dir, "actor"))
		}, "actor: missing, expected 1000 bytes"},
		{"file a folder", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "actor")), os.Mkdir(filepath.Join(dir, "actor"), 0o777))
		}, "actor: "},
		{"file a pipe", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "actor")),
				syscall.Mkfifo(filepath.Join(dir, "actor"), 0o666))
		}, "is a pipe, expected a file"},
	})
}

// TestNewestSkipsDamagedManifests: a checkpoint without its manifest, or with another manifest, is rejected.
func TestNewestSkipsDamagedManifests(t *testing.T) {
	newestSkips(t, []damage{
		{"manifest a pipe", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "manifest.json")),
				syscall.Mkfifo(filepath.Join(dir, "manifest.json"), 0o666))
		}, "is a pipe, expected a file"},
		{"no manifest", func(dir string) error {
			return os.Remove(filepath.Join(dir, "manifest.json"))
		}, "manifest.json: missing"},
		{"manifest empty", func(dir string) error {
			return os.Truncate(filepath.Join(dir, "manifest.json"), 0)
		}, "manifest.json: "},
		{"manifest cut", func(dir string) error {
			return os.Truncate(filepath.Join(dir, "manifest.json"), 200)
		}, "manifest.json: "},
		{"manifest edited", replace(`"ranks": 2`, `"ranks": 3`), "manifest.json: changed after it was written"},
		{"other format", replace(`"format": 1`, `"format": 9`), "manifest.json: format 9, expected 1"},
		{"folder renamed", func(dir string) error {
			return errors.Join(os.RemoveAll(dir),
				os.CopyFS(dir, os.DirFS(filepath.Join(filepath.Dir(dir), "global_step_10"))))
		}, "manifest.json: step 10, expected 20"},
		{"folder empty", func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o777))
		}, "manifest.json: missing"},
	})
}

func TestNewestOfNothing(t *testing.T) {
	if c, rejected, err := open(t, filepath.Join(t.TempDir(), "new", "folder"), 2).Newest(); c != nil ||
		rejected != nil || err != nil {
		t.Errorf("got %v, %v, %v", c, rejected, err)
	}
}

func TestOpenRemovesWhatAnInterruptionLeft(t *testing.T) {
	dir := t.TempDir()
	save(t, open(t, dir, 0), 10)
	for _, left := range []string{".writing-global_step_20", ".removing-global_step_5"} {
		test.OK(t, os.CopyFS(filepath.Join(dir, left), os.DirFS(filepath.Join(dir, "global_step_10"))))
	}
	open(t, dir, 0)
	want(t, dir, "global_step_10", "latest")
}

func TestRewind(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	for step := int64(10); step <= 40; step += 10 {
		save(t, s, step)
	}
	later, err := s.Rewind(20)
	if err != nil || !slices.Equal(later, []int64{40, 30}) {
		t.Errorf("got %v, %v, want 40 and 30", later, err)
	}
	want(t, dir, "global_step_10", "global_step_20", "latest", "superseded_global_step_30", "superseded_global_step_40")
	if c, err := checkpoint.Load(filepath.Join(dir, "latest")); err != nil || c.Step != 20 {
		t.Errorf("latest: %+v, %v, want step 20", c, err)
	}
	if c, _, err := s.Newest(); err != nil || c.Step != 20 {
		t.Errorf("newest: %+v, %v, want step 20", c, err)
	}
}

// A failed write does not damage earlier checkpoints, whatever the reason.
func TestFailedSave(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1)
	save(t, s, 10)
	full := checkpoint.File{Name: "actor", Write: func(w io.Writer) error {
		if _, err := w.Write(pattern(1<<20, 2)); err != nil {
			return err
		}
		return syscall.ENOSPC
	}}
	_, err := s.Save(checkpoint.Info{Step: 20, Config: config}, checkpoint.BytesFile("counters", nil), full)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "global_step_20: actor: no space left") {
		t.Errorf("got %v", err)
	}
	want(t, dir, "global_step_10", "latest")
}

func TestUnusableStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	test.OK(t, os.WriteFile(file, nil, 0o666))
	test.Fails(t, test.Err(checkpoint.Open(file, 1)), file)
	if _, err := checkpoint.Load(filepath.Join(file+"s", "global_step_3")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

func FuzzLoadManifest(f *testing.F) {
	dir := f.TempDir()
	s, err := checkpoint.Open(dir, 0)
	if err != nil {
		f.Fatal(err)
	}
	saved, err := s.Save(checkpoint.Info{Step: 1, Config: config}, checkpoint.BytesFile("actor", []byte("x")))
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(saved, "manifest.json")
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":1,"files":[{"name":"../x","size":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		test.OK(t, os.WriteFile(path, data, 0o666))
		if _, err := checkpoint.Load(saved); err == nil && !bytes.Equal(data, good) {
			t.Errorf("accepted %q", data)
		}
	})
}

func open(t *testing.T, dir string, keep int) *checkpoint.Store {
	t.Helper()
	s := test.Must(checkpoint.Open(dir, keep))(t)
	return s
}

func save(t *testing.T, s *checkpoint.Store, step int64) string {
	t.Helper()
	dir := test.Must(s.Save(checkpoint.Info{Step: step, Ranks: 2, Config: config},
		checkpoint.BytesFile("actor", pattern(1000, step))))(t)
	return dir
}

func load(dir string) error {
	_, err := checkpoint.Load(dir)
	return err
}

// want checks the names in dir.
func want(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries := test.Must(os.ReadDir(dir))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	test.EqualSlices(t, got, names, "%s holds", dir)
}

func rewrite(dir, name string, change func([]byte) []byte) error {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, change(b), 0o666)
}

func replace(from, to string) func(dir string) error {
	return func(dir string) error {
		return rewrite(dir, "manifest.json", func(b []byte) []byte {
			return bytes.Replace(b, []byte(from), []byte(to), 1)
		})
	}
}

// pattern returns n bytes that depend only on seed.
func pattern(n int, seed int64) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// A store with KeepBest keeps the best checkpoint beside the newest, also after it was opened again. Checkpoints
// without a score are never the best.
func TestStoreKeepsTheBest(t *testing.T) {
	dir := t.TempDir()
	best := func(want string) {
		t.Helper()
		if got, _ := os.Readlink(filepath.Join(dir, "best")); got != want {
			t.Errorf("best names %q, want %q", got, want)
		}
	}
	score := func(x float64) *float64 { return &x }
	for step, score := range []*float64{nil, score(-3), score(7), score(7), score(1), nil} {
		s := open(t, dir, 1)
		s.KeepBest()
		test.Must(s.Save(checkpoint.Info{Step: int64(step), Config: config, Score: score}))(t)
		best([]string{"", "global_step_1", "global_step_2", "global_step_3", "global_step_3", "global_step_3"}[step])
	}
	want(t, dir, "best", "global_step_3", "global_step_5", "latest")
	if got := checkpoint.Latest(dir); got != filepath.Join(dir, "global_step_5") {
		t.Errorf("latest: %s", got)
	}
	if got := checkpoint.Best(dir); got != filepath.Join(dir, "global_step_3") {
		t.Errorf("best: %s", got)
	}
	s := open(t, dir, 1)
	s.KeepBest()
	test.Must(s.Save(checkpoint.Info{Step: 6, Config: config, Score: score(9)}))(t)
	best("global_step_6")
	if _, err := s.Rewind(5); err != nil { // the best checkpoint is now superseded
		t.Fatal(err)
	}
	best("")
	if got := checkpoint.Latest(t.TempDir()); got != "" {
		t.Errorf("latest of nothing: %s", got)
	}
}
