package checkpoint

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

const (
	prefix     = "global_step_"
	writing    = ".writing-"   // prefix of a checkpoint that is being written
	removing   = ".removing-"  // prefix of a checkpoint that is being removed
	superseded = "superseded_" // prefix of a checkpoint that Rewind or Save has renamed
	latest     = "latest"      // symbolic link to the last checkpoint saved
	best       = "best"        // symbolic link to the checkpoint with the highest score, see KeepBest
	configFile = "config.yaml"
)

// A Store is a folder of checkpoints. Only one process writes to it.
type Store struct {
	dir      string
	keep     int
	keepBest bool
}

// Open opens the store in dir. It makes dir if it is missing, and removes the remains of interrupted writes and
// removals. Save then keeps only the newest n checkpoints. If n is below 1, it keeps all.
func Open(dir string, n int) (*Store, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	for _, file := range names {
		if strings.HasPrefix(file.Name(), writing) || strings.HasPrefix(file.Name(), removing) {
			if err := os.RemoveAll(filepath.Join(dir, file.Name())); err != nil {
				return nil, fmt.Errorf("checkpoints: remove what an interrupted write left: %w", err)
			}
		}
	}
	return &Store{dir: dir, keep: n}, nil
}

// KeepBest makes Save also keep the checkpoint with the highest score. The link "best" points to it. If several
// checkpoints have the highest score, Save keeps the newest of them.
func (s *Store) KeepBest() { s.keepBest = true }

// Info describes a checkpoint.
type Info struct {
	Step   int64
	Ranks  int      // number of ranks of the job
	Config []byte   // resolved YAML of the job, stored in the checkpoint
	Score  *float64 // score of the policy, finite, higher is better; nil if unknown
}

// A File is one file of a checkpoint. Name has no folder. Write writes the content to a buffered writer.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// Save writes a checkpoint of files and returns its folder. If a complete checkpoint of the step exists, Save leaves it
// as it is. After an error the earlier checkpoints are still there.
func (s *Store) Save(info Info, files ...File) (string, error) {
	dir := s.path(info.Step)
	if _, err := Load(dir); err == nil {
		return dir, s.link(latest, info.Step)
	}
	temp := filepath.Join(s.dir, writing+name(info.Step))
	err := s.write(temp, info, files)
	if err == nil {
		err = s.publish(temp, info.Step)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("save checkpoint %s: %w", dir, err), os.RemoveAll(temp))
	}
	if err = s.linkBest(); err == nil {
		err = s.prune()
	}
	if err != nil {
		return dir, fmt.Errorf("remove old checkpoints: %w", err)
	}
	return dir, nil
}

// write writes a complete checkpoint to the folder temp and syncs all of it.
func (s *Store) write(temp string, info Info, files []File) error {
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o777); err != nil {
		return err
	}
	m := manifest{Format: format, Step: info.Step, Ranks: info.Ranks, Config: hash(info.Config),
		Created: time.Now().UTC().Round(time.Second), Score: info.Score}
	for _, f := range append([]File{BytesFile(configFile, info.Config)}, files...) {
		if f.Name != filepath.Base(f.Name) || f.Name == manifestFile ||
			slices.ContainsFunc(m.Files, func(e entry) bool { return e.Name == f.Name }) {
			panic(fmt.Sprintf("checkpoint: file name %q", f.Name))
		}
		path, crc := filepath.Join(temp, f.Name), crc32.New(castagnoli)
		err := durable.Create(path, func(w io.Writer) error {
			buf := bufio.NewWriterSize(io.MultiWriter(w, crc), 1<<20)
			if err := f.Write(buf); err != nil {
				return err
			}
			return buf.Flush()
		})
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, entry{Name: f.Name, Size: info.Size(), Sum: sumOf(crc.Sum32())})
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(temp, manifestFile), data); err != nil {
		return err
	}
	return durable.SyncDir(temp)
}

// publish renames the complete checkpoint temp to its final name, and makes the link "latest" point to it. publish
// first renames a damaged checkpoint that has this name.
func (s *Store) publish(temp string, step int64) error {
	if err := s.supersede(step); err != nil {
		return err
	}
	if err := os.Rename(temp, s.path(step)); err != nil {
		return err
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return err
	}
	return s.link(latest, step)
}

// link makes the symbolic link called alias point to the checkpoint of step.
func (s *Store) link(alias string, step int64) error {
	link := filepath.Join(s.dir, writing+alias)
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	if err := os.Symlink(name(step), link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(s.dir, alias)); err != nil {
		return err
	}
	return durable.SyncDir(s.dir)
}

// linkBest makes the link "best" point to the checkpoint with the highest score. If no checkpoint has a score, it
// removes the link.
func (s *Store) linkBest() error {
	if !s.keepBest {
		return nil
	}
	steps, err := s.steps()
	if err != nil {
		return err
	}
	step, score := int64(-1), math.Inf(-1)
	for _, n := range steps { // newest first
		if m, err := readManifest(s.path(n)); err == nil && m.Score != nil && *m.Score > score {
			step, score = n, *m.Score
		}
	}
	if step < 0 {
		return os.RemoveAll(filepath.Join(s.dir, best))
	}
	return s.link(best, step)
}

// prune removes old checkpoints. It keeps the newest s.keep checkpoints, and the checkpoints to which the links
// "latest" and "best" point. It renames a checkpoint before it removes it, so that a partly removed folder does not
// count as a checkpoint.
func (s *Store) prune() error {
	steps, err := s.steps()
	if err != nil || s.keep < 1 || len(steps) <= s.keep {
		return err
	}
	current, err := os.Readlink(filepath.Join(s.dir, latest))
	if err != nil {
		return err
	}
	kept := []string{current}
	if top, err := os.Readlink(filepath.Join(s.dir, best)); err == nil && s.keepBest {
		kept = append(kept, top)
	}
	for _, step := range steps[s.keep:] {
		if slices.Contains(kept, name(step)) {
			continue
		}
		gone := filepath.Join(s.dir, removing+name(step))
		if err := os.Rename(s.path(step), gone); err != nil {
			return err
		}
		if err := os.RemoveAll(gone); err != nil {
			return err
		}
	}
	return nil
}

// Rewind makes the checkpoint of step the newest checkpoint. Later checkpoints do not belong to a run that resumes from
// step, so Rewind renames them to superseded_global_step_N, and returns their steps. Superseded checkpoints are
// ignored.
func (s *Store) Rewind(step int64) ([]int64, error) {
	steps, err := s.steps()
	if err == nil && slices.Contains(steps, step) {
		err = s.link(latest, step)
	}
	later := slices.DeleteFunc(steps, func(n int64) bool { return n <= step })
	for _, n := range later {
		if err == nil {
			err = s.supersede(n)
		}
	}
	if err == nil {
		err = s.linkBest()
	}
	if err != nil {
		return nil, fmt.Errorf("rewind checkpoints: %w", err)
	}
	return later, nil
}

// supersede renames the checkpoint of step, if it exists, so that it is ignored.
func (s *Store) supersede(step int64) error {
	from, to := s.path(step), filepath.Join(s.dir, superseded+name(step))
	if _, err := os.Lstat(from); os.IsNotExist(err) {
		return nil
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Latest returns the path of the checkpoint that was saved last in the store at dir. It returns "" if there is none.
// Any process may call Latest.
func Latest(dir string) string { return linked(dir, latest) }

// Best returns the path of the checkpoint with the highest score in the store at dir. It returns "" if there is none,
// as in a store without KeepBest. Any process may call Best.
func Best(dir string) string { return linked(dir, best) }

// linked returns the path of the checkpoint to which a link in dir points, or "" if there is none.
func linked(dir, alias string) string {
	to, err := os.Readlink(filepath.Join(dir, alias))
	if _, ok := stepOf(to); err != nil || !ok {
		return ""
	}
	return filepath.Join(dir, to)
}

// Newest returns the newest valid checkpoint, or nil. All newer checkpoints are invalid, and rejected has their errors.
func (s *Store) Newest() (c *Checkpoint, rejected []error, err error) {
	steps, err := s.steps()
	if err != nil {
		return nil, nil, fmt.Errorf("find a checkpoint: %w", err)
	}
	for _, step := range steps {
		c, err := Load(s.path(step))
		if err == nil {
			return c, rejected, nil
		}
		rejected = append(rejected, err)
	}
	return nil, rejected, nil
}

// steps returns the steps of the checkpoints in the store, newest first.
func (s *Store) steps() ([]int64, error) {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var steps []int64
	for _, n := range names {
		if step, ok := stepOf(n.Name()); ok {
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, func(a, b int64) int { return cmp.Compare(b, a) })
	return steps, nil
}

func (s *Store) path(step int64) string { return filepath.Join(s.dir, name(step)) }

func name(step int64) string { return prefix + strconv.FormatInt(step, 10) }

// StepOf returns the step in the name of the checkpoint folder dir. ok is false if the name has none.
func StepOf(dir string) (step int64, ok bool) { return stepOf(filepath.Base(dir)) }

// stepOf returns the step in the name of a checkpoint folder.
func stepOf(base string) (int64, bool) {
	digits, ok := strings.CutPrefix(base, prefix)
	step, err := strconv.ParseInt(digits, 10, 64)
	return step, ok && err == nil && name(step) == base
}
