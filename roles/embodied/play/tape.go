package play

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A tape records the episodes of a stage. Each step adds a transition of every environment to a file, and allocates
// nothing. JoinTapes makes a file of demonstrations of the tapes of all stages.
type tape struct {
	*TransitionEncoder
	cfg       env.DataCollection
	file      *os.File
	out       *bufio.Writer
	row       []byte
	autoReset bool
	steps     int64   // recorded steps
	begun     []int64 // the step with which the running episode began; -1 if that step is not on the tape
	number    []int   // the number of the running episode, from 0; aborted episodes have none
	rounds    []round // rounds[k] has the episodes of number k
	complete  int     // number of complete rounds
	kept      int     // transitions of the complete rounds
	full      bool    // the complete rounds have all that can be part of the joined file
	index     tapeIndex
}

// A round has the k-th episode of every environment.
type round struct {
	ended int // episodes that have ended
	kept  int // transitions of the wanted episodes
}

// A tapeIndex is stored at the end of a tape's file: after the transitions, and before the index's own length.
type tapeIndex struct {
	Fields      []tensor.Field // of a transition
	Size        int            // of a transition, in bytes
	Env         string
	HasSuccess  bool
	First, Envs int // the number of the first environment, and of environments
	Episodes    []taped
}

// A taped is an episode on a tape.
type taped struct {
	Env    int   // number of its environment in the job
	Number int   // 0 for the first episode of the environment
	Begin  int64 // its first step on the tape
	Task   int   // env.Episode.Task
	algo.DemoEpisode
}

// tapeBuffer is the number of bytes that a tape writes at a time.
const tapeBuffer = 1 << 18

// tapeOf returns the path of a stage's tape for the recording file. lo is the first environment of the stage.
func tapeOf(file string, lo int) string {
	return filepath.Join(filepath.Dir(file), fmt.Sprintf(".recording-%s-%d", filepath.Base(file), lo))
}

// RemoveTape removes a stage's tape for the recording file, if it exists. lo is the first environment of the stage.
func RemoveTape(file string, lo int) error {
	if err := os.Remove(tapeOf(file, lo)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Tapes returns the paths of all tapes for the recording file, finished or not.
func Tapes(file string) ([]string, error) {
	return filepath.Glob(tapeOf(file, 0)[:len(tapeOf(file, 0))-1] + "*")
}

// RecordEpisodes records the episodes that begin from now on, for JoinTapes with this file. Transitions have next
// observations if next is true. Call EndTape at the end.
func (s *Stage) RecordEpisodes(file string, cfg env.DataCollection, next bool) error {
	n, spec := s.Vec.Len(), s.Vec.Spec()
	f, err := os.Create(tapeOf(file, s.first))
	if err != nil {
		return err
	}
	t := &tape{TransitionEncoder: NewTransitionEncoder(spec, n, s.Now.Reward.Dim(1), next), cfg: cfg, file: f,
		out: bufio.NewWriterSize(f, tapeBuffer), autoReset: s.AutoReset, begun: make([]int64, n),
		number: make([]int, n)}
	t.row = make([]byte, 0, t.Size())
	h := t.Header(nil, 0)
	t.index = tapeIndex{Fields: h.Fields, Size: t.Size(), Env: h.Env, HasSuccess: h.HasSuccess, First: s.first, Envs: n}
	for i := range t.begun {
		t.begun[i] = -1
	}
	s.tape, s.Episodes.OnEnd = t, t.end
	return nil
}

// begin records the first observations of new episodes.
func (t *tape) begin(obs tensor.Dict) {
	t.Begin(obs)
	for i := range t.begun {
		t.begun[i] = t.steps
	}
}

// watch records a step.
func (t *tape) watch(actions tensor.Tensor, now *env.Step) error {
	if t.full {
		return nil
	}
	final := now.Obs
	if t.autoReset {
		final = now.FinalObs
	}
	for i := range t.begun {
		t.row = t.Append(t.row[:0], i, actions, now, final)
		if _, err := t.out.Write(t.row); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
	t.Begin(now.Obs)
	t.steps++
	return nil
}

// end records the end of an episode, after watch.
func (t *tape) end(e env.Episode) {
	i := e.Env - t.index.First
	begun, number := t.begun[i], t.number[i]
	if t.begun[i] = t.steps; t.full || e.Aborted || begun < 0 {
		return
	}
	t.number[i]++
	d := algo.DemoEpisode{Len: int(t.steps - begun), Return: e.Return, Success: e.SuccessOnce}
	t.index.Episodes = append(t.index.Episodes, taped{Env: e.Env, Number: number, Begin: begun, Task: e.Task,
		DemoEpisode: d})
	if number == len(t.rounds) {
		t.rounds = append(t.rounds, round{})
	}
	r := &t.rounds[number]
	if r.ended++; t.cfg.Wants(d.Success, d.Return) {
		r.kept += d.Len
	}
	for t.complete < len(t.rounds) && t.rounds[t.complete].ended == len(t.begun) {
		t.kept += t.rounds[t.complete].kept
		t.complete++
	}
	t.full = t.cfg.MaxSteps > 0 && t.kept >= t.cfg.MaxSteps
}

// EndTape ends the recording of RecordEpisodes. Without one it does nothing.
func (s *Stage) EndTape() error {
	t := s.tape
	if t == nil {
		return nil
	}
	s.tape, s.Episodes.OnEnd = nil, nil
	err := t.finish()
	if err = errors.Join(err, t.file.Close()); err != nil {
		err = fmt.Errorf("record: %w", err)
	}
	return err
}

// finish writes the index.
func (t *tape) finish() error {
	if err := t.out.Flush(); err != nil {
		return err
	}
	first := make([]byte, t.Size())
	for i := range t.index.Episodes {
		e := &t.index.Episodes[i]
		if _, err := t.file.ReadAt(first, t.index.at(e, 0)); err != nil {
			return err
		}
		e.Instruction = t.instruction(e.Task, first)
	}
	end, err := t.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(t.out).Encode(t.index); err != nil {
		return err
	}
	if err := binary.Write(t.out, binary.LittleEndian, end); err != nil {
		return err
	}
	return t.out.Flush()
}

// at returns the place of a transition in a tape's file: number k of the episode e.
func (x *tapeIndex) at(e *taped, k int) int64 {
	return ((e.Begin+int64(k))*int64(x.Envs) + int64(e.Env-x.First)) * int64(x.Size)
}

// A Joined describes a file that JoinTapes has written.
type Joined struct {
	Episodes, Transitions int // in the file
	Played, Succeeded     int // on the tapes
}

// ErrNothingRecorded is the error of JoinTapes if no episode is as the configuration wants it.
var ErrNothingRecorded = errors.New("no episode to record")

// JoinTapes writes the wanted episodes of the tapes of all stages to the file at path: environment after environment,
// each in the order of its episodes. The output does not depend on how the environments were divided into stages. file
// is the recording file of RecordEpisodes, and los has the first environment of each stage. JoinTapes removes the
// tapes.
func JoinTapes(path, file string, los []int, cfg env.DataCollection) (j Joined, err error) {
	var tapes []*os.File
	defer func() {
		for _, f := range tapes {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	var all []taped
	from := map[int]int{} // the tape of an environment
	var indices []tapeIndex
	for _, lo := range los {
		f, err := os.Open(tapeOf(file, lo))
		if err != nil {
			return j, fmt.Errorf("record: %w: expected a folder that all ranks share", err)
		}
		tapes = append(tapes, f)
		index, err := readIndex(f)
		if err != nil {
			return j, fmt.Errorf("record: %s: %w", f.Name(), err)
		}
		for i := range index.Envs {
			from[index.First+i] = len(indices)
		}
		indices, all = append(indices, index), append(all, index.Episodes...)
	}
	j.Played = len(all)
	for _, e := range all {
		if e.Success {
			j.Succeeded++
		}
	}
	all = selected(all, cfg)
	if len(all) == 0 {
		return j, fmt.Errorf("%s: %w: %d were played to their end, %d with success", path, ErrNothingRecorded, j.Played,
			j.Succeeded)
	}
	x := &indices[0]
	h := algo.DemoHeader{Env: x.Env, Fields: x.Fields, HasSuccess: x.HasSuccess,
		SuccessRate: float64(j.Succeeded) / float64(j.Played)}
	for _, e := range all {
		h.Episodes = append(h.Episodes, e.DemoEpisode)
	}
	j.Episodes, j.Transitions = len(all), h.Transitions()
	return j, algo.WriteDemos(path, h, func(add func([]byte) error) error {
		row := make([]byte, x.Size)
		for i := range all {
			e := &all[i]
			for k := range e.Len {
				if _, err := tapes[from[e.Env]].ReadAt(row, indices[from[e.Env]].at(e, k)); err != nil {
					return err
				}
				if err := add(row); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// selected returns the wanted episodes, in the order of environments. If there are more than cfg.MaxSteps transitions,
// it takes the first episodes of all environments, then the second ones, as long as they fit.
func selected(all []taped, cfg env.DataCollection) []taped {
	all = slices.DeleteFunc(all, func(e taped) bool { return !cfg.Wants(e.Success, e.Return) })
	slices.SortFunc(all, func(a, b taped) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Env, b.Env))
	})
	total := 0
	for i, e := range all {
		if total += e.Len; cfg.MaxSteps > 0 && total > cfg.MaxSteps {
			all = all[:i]
			break
		}
	}
	slices.SortFunc(all, func(a, b taped) int {
		return cmp.Or(cmp.Compare(a.Env, b.Env), cmp.Compare(a.Number, b.Number))
	})
	return all
}

// readIndex reads the end of a tape's file.
func readIndex(f *os.File) (x tapeIndex, err error) {
	info, err := f.Stat()
	if err != nil {
		return x, err
	}
	var last [8]byte
	if _, err := f.ReadAt(last[:], info.Size()-8); err != nil {
		return x, err
	}
	at := int64(binary.LittleEndian.Uint64(last[:]))
	return x, gob.NewDecoder(io.NewSectionReader(f, at, info.Size()-8-at)).Decode(&x)
}
