package dataset

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/tensor"
)

// Columns of LeRobot folders with rewards and ends of episodes. The last two are ours.
const (
	nextReward     = "next.reward"
	nextDone       = "next.done"
	nextTerminated = "next.terminated"
	nextTruncated  = "next.truncated"
)

// task is the name, in place of a column, of the task in words.
const task = "task"

// A column is the source of one tensor of a transition.
type column struct {
	tensor.Field        // without the dimension of transitions
	source       string // the feature, task, or "" for zeros
	feature      int    // index of source among the features that are read; -1 for others
	image        bool
}

// A source is a folder with the tensors that are taken from it.
type source struct {
	*lerobot.Folder
	columns  []column
	features []string // columns' features
}

// add adds a tensor whose numbers, image or text are those of the given feature, or of task, or zeros.
func (s *source) add(f tensor.Field, from string) error {
	c := column{Field: f, source: from, feature: -1}
	if from != "" && from != task {
		feature, ok := s.Features[from]
		if !ok {
			return fmt.Errorf("no column %s for %s: expected one of %s", from, f.Name, s.listed())
		}
		shape := feature.Shape
		if c.image = feature.IsImage(); c.image {
			shape = feature.Pixels()
		}
		if c.image && f.DType != tensor.U8 || !c.image && !sameShape(shape, f.Shape) ||
			c.image && !slices.Equal(shape, f.Shape) || feature.DType == "string" {
			return fmt.Errorf("column %s is %s%v: expected %v%v for %s", from, feature.DType, feature.Shape, f.DType,
				f.Shape, f.Name)
		}
		c.feature = len(s.features)
		s.features = append(s.features, from)
	}
	s.columns = append(s.columns, c)
	return nil
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

// candidates returns the columns that may have a tensor, the best first.
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

// find returns the column of a tensor: that of names, or the first candidate, or "".
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

// isText reports whether a tensor is an observation that is a text.
func isText(name string, obs []env.Field) bool {
	return slices.ContainsFunc(obs, func(f env.Field) bool { return f.Text && algo.Observations+"."+f.Name == name })
}

// fill fills dst with the bytes of column c in a frame. The column is no image.
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
	low, high := 0.0, 0.0
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
		high = 255
	default:
		return fmt.Errorf("%v is not read from tables", dtype)
	}
	if v != math.Trunc(v) || v < low || v > high {
		return fmt.Errorf("expected whole numbers from %.0f to %.0f", low, high)
	}
	switch dtype {
	case tensor.I32:
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(v)))
	case tensor.I64:
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(int64(v)))
	case tensor.U8:
		dst[i] = byte(v)
	}
	return nil
}
