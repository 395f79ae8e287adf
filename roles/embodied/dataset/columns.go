package dataset

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/tensor"
)

// Columns of LeRobot folders with rewards and ends of episodes. LeRobot itself has no next.terminated and no
// next.truncated.
const (
	nextReward     = "next.reward"
	nextDone       = "next.done"
	nextTerminated = "next.terminated"
	nextTruncated  = "next.truncated"
	nextSuccess    = "next.success"
)

// task stands in place of a column's name for the task in words.
const task = "task"

// A column is the source of one tensor of a transition.
type column struct {
	tensor.Field                // without the dimension of transitions
	source       string         // the feature, task, or "" for zeros
	feature      int            // index of source among the features that are read; -1 for others
	image        bool           // decoded, or kept in pictures
	pictures     *algo.Pictures // nil, or the encoded images: then the tensor has their indices, I32
}

// A source is a folder of LeRobot, and the tensors to read from it.
type source struct {
	*lerobot.DatasetFolder
	columns  []column
	features []string // the features of columns
	exact    bool     // Export has written the folder, with the exact ends of episodes
	ahead    bool     // transitions have next observations
}

// add adds the tensor f. The argument from is the feature that has its numbers or image, task for its text, or "" for
// zeros.
func (s *source) add(f tensor.Field, from string) error {
	c := column{Field: f, source: from, feature: -1}
	if i := s.column(f.Name); i >= 0 {
		return fmt.Errorf("columns %s and %s are both %s: expected one", s.columns[i].source, from, f.Name)
	}
	if from != "" && from != task {
		feature, ok := s.Features[from]
		if !ok {
			return fmt.Errorf("no column %s for %s: expected one of %s", from, f.Name, s.listed())
		}
		fits := feature.DType != "string" && sameShape(feature.Shape, f.Shape)
		if c.image = feature.IsImage(); c.image {
			fits = f.DType == tensor.U8 && slices.Equal(feature.Pixels(), f.Shape) && f.Shape[2]|2 == 3 // 1 or 3
		}
		if !fits {
			return fmt.Errorf("column %s is %s%v: expected %v%v for %s", from, feature.DType, feature.Shape, f.DType,
				f.Shape, f.Name)
		}
		c.feature = len(s.features)
		s.features = append(s.features, from)
	}
	s.columns = append(s.columns, c)
	return nil
}

// column returns the index of a tensor's column, or -1 if there is none. A next observation has the column of the
// observation.
func (s *source) column(name string) int {
	if obs, ok := strings.CutPrefix(name, algo.NextObservations+"."); ok {
		name = algo.Observations + "." + obs
	}
	return slices.IndexFunc(s.columns, func(c column) bool { return c.Name == name })
}

// sameShape reports whether two shapes are equal but for leading dimensions of one.
func sameShape(a, b []int) bool {
	trim := func(s []int) []int {
		for len(s) > 0 && s[0] == 1 {
			s = s[1:]
		}
		return s
	}
	return slices.Equal(trim(a), trim(b))
}

// listed returns the names of the folder's features.
func (s *source) listed() string {
	return strings.Join(append(slices.Sorted(maps.Keys(s.Features)), task), ", ")
}

// candidates returns the features that may have the values of a tensor, the best first.
func candidates(name string) []string {
	switch name {
	case algo.FieldReward:
		return []string{nextReward}
	case algo.FieldTerminated:
		return []string{nextTerminated, nextDone}
	case algo.FieldTruncated:
		return []string{nextTruncated}
	}
	all := []string{name}
	if obs, ok := strings.CutPrefix(name, algo.Observations+"."); ok {
		all = append(all, algo.Observations+".images."+obs)
		if obs == "states" {
			all = append(all, algo.Observations+".state")
		}
	}
	return all
}

// find returns the feature for a tensor: the one in names, else the first candidate in the folder. It returns "" if
// there is none.
func (s *source) find(name string, names map[string]string) string {
	if own := names[name]; own != "" {
		return own
	}
	for _, c := range candidates(name) {
		if _, ok := s.Features[c]; ok {
			return c
		}
	}
	return ""
}

// A place says in which column a step has a tensor, and whether it is a next observation.
type place struct {
	column int
	next   bool
}

// places returns the places of tensors.
func (s *source) places(fields []tensor.Field) ([]place, error) {
	places := make([]place, len(fields))
	for i, f := range fields {
		places[i] = place{s.column(f.Name), strings.HasPrefix(f.Name, algo.NextObservations+".")}
		if i := places[i].column; i < 0 || s.columns[i].Bytes() != f.Bytes() {
			return nil, fmt.Errorf("no column for %s of %d bytes", f.Name, f.Bytes())
		}
	}
	return places, nil
}

// cell returns the bytes of a tensor.
func (x *step) cell(at place) []byte {
	if at.next {
		return x.next[at.column]
	}
	return x.now[at.column]
}

// A step has the bytes of every column in a frame.
type step struct {
	task      string
	now, next [][]byte // next is now at the last frame
	kept      bool     // it becomes a transition: see Read
	last      bool     // the last frame of its episode
}

// steps calls handle for all frames. The step is valid until handle returns.
func (s *source) steps(handle func(step) error) error {
	now, next := make([][]byte, len(s.columns)), make([][]byte, len(s.columns))
	for i := range s.columns {
		now[i], next[i] = make([]byte, s.columns[i].Bytes()), make([]byte, s.columns[i].Bytes())
	}
	terminated, truncated := s.column(algo.FieldTerminated), s.column(algo.FieldTruncated)
	return s.Frames(s.features, func(x *lerobot.Frame) error {
		for i := range s.columns {
			if err := s.fill(next[i], &s.columns[i], x); err != nil {
				return err
			}
		}
		left := false
		if !s.exact {
			ended := x.Last && next[terminated][0] != 0
			left = s.ahead && x.Last && !ended
			next[terminated][0], next[truncated][0] = flag(ended), flag(x.Last && !ended)
		}
		if x.Step > 0 {
			if left {
				now[truncated][0] = 1
			}
			if err := handle(step{x.Task, now, next, true, false}); err != nil {
				return err
			}
		}
		if now, next = next, now; x.Last {
			return handle(step{x.Task, now, now, !left, true})
		}
		return nil
	})
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// fill fills dst with the bytes of column c in a frame.
func (s *source) fill(dst []byte, c *column, x *lerobot.Frame) error {
	switch {
	case c.source == task:
		if len(x.Task) > len(dst) {
			return fmt.Errorf("the task %.40q has %d bytes: expected at most %d, as %s has", x.Task, len(x.Task),
				len(dst), c.Name)
		}
		clear(dst[copy(dst, x.Task):])
		return nil
	case c.feature < 0:
		clear(dst)
		return nil
	case c.image:
		encoded, err := x.Image(c.feature)
		at := 0
		switch {
		case err != nil:
			return err
		case c.pictures == nil:
			err = algo.DecodeImage(dst, c.Shape, encoded)
		default:
			at, err = c.pictures.Add(encoded)
			binary.LittleEndian.PutUint32(dst, uint32(at))
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.source, err)
		}
		return nil
	}
	numbers, err := x.Numbers(c.feature, len(dst)/c.DType.Size())
	if err != nil {
		return err
	}
	for i, v := range numbers {
		if err := put(dst, i, c.DType, v); err != nil {
			return fmt.Errorf("column %s is %v: %w", c.source, v, err)
		}
	}
	return nil
}

// put sets number i of dst, which has numbers of the given type.
func put(dst []byte, i int, dtype tensor.DType, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("expected finite numbers")
	}
	low, high := 0.0, 255.0
	switch dtype {
	case tensor.F32:
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
		return nil
	case tensor.F64:
		binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(v))
		return nil
	case tensor.I32:
		low, high = math.MinInt32, math.MaxInt32
	case tensor.I64:
		low, high = -1<<53, 1<<53
	case tensor.U8:
	default:
		return fmt.Errorf("%v is not read from tables", dtype)
	}
	if v != math.Trunc(v) || v < low || v > high {
		return fmt.Errorf("expected whole numbers from %.0f to %.0f", low, high)
	}
	for k := range dtype.Size() {
		dst[dtype.Size()*i+k] = byte(int64(v) >> (8 * k))
	}
	return nil
}
