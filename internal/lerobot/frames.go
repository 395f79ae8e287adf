package lerobot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/tables"
)

// A Frame is one step of an episode. It is valid until the function that gets it returns.
type Frame struct {
	Episode int    // index of the episode
	Step    int    // index in the episode
	Number  int    // index in the folder
	Last    bool   // the last frame of the episode
	Task    string // the task in words; "" if the folder names none
	row     *tables.Row
	columns []int // of the features that were asked for; -1 for videos
	images  [][]byte
	names   []string
}

// Numbers returns the n numbers of feature i of those that were asked for. The result is valid until the next call.
func (x *Frame) Numbers(i, n int) ([]float64, error) { return x.row.Numbers(x.columns[i], n) }

// Image returns the encoded image of feature i, as PNG or JPEG. The caller may keep it.
func (x *Frame) Image(i int) ([]byte, error) {
	if x.columns[i] < 0 {
		return x.images[i], nil
	}
	encoded, err := x.row.Bytes(x.columns[i])
	if err != nil {
		return nil, err
	}
	return slices.Clone(encoded), nil
}

// Frames calls handle for all frames in their order, with the given features.
func (f *Folder) Frames(features []string, handle func(*Frame) error) error {
	for _, name := range features {
		if _, ok := f.Features[name]; !ok {
			return fmt.Errorf("%s: no feature %s: it has %s", f.Dir, name,
				strings.Join(slices.Sorted(maps.Keys(f.Features)), ", "))
		}
	}
	videos := &videoSet{folder: f, features: features}
	defer videos.close()
	x := &Frame{images: make([][]byte, len(features)), names: features}
	for first := 0; first < len(f.Episodes); {
		end := first + 1
		for end < len(f.Episodes) && f.Episodes[end].data == f.Episodes[first].data {
			end++
		}
		if err := f.framesIn(first, end, features, x, videos, handle); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// framesIn calls handle for the frames of episodes first to end, which are in one file.
func (f *Folder) framesIn(first, end int, features []string, x *Frame, videos *videoSet,
	handle func(*Frame) error) error {
	path := f.Episodes[first].data
	t, err := tables.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	columns := []string{EpisodeIndex, FrameIndex}
	hasTask := t.Has(TaskIndex)
	if hasTask {
		columns = append(columns, TaskIndex)
	}
	x.columns = x.columns[:0]
	for _, name := range features {
		switch f.Features[name].DType {
		case "video":
			x.columns = append(x.columns, -1)
			continue
		case "image":
			if name += ".bytes"; !t.Has(name) {
				return fmt.Errorf("%s: no column %s: expected images in the table", path, name)
			}
		}
		x.columns, columns = append(x.columns, len(columns)), append(columns, name)
	}
	x.Episode, x.Step = first, -1
	err = t.Each(columns, func(r *tables.Row) error {
		if x.Step++; x.Episode < end && x.Step == f.Episodes[x.Episode].Len {
			x.Episode, x.Step = x.Episode+1, 0
		}
		for i, want := range []int{x.Episode, x.Step} {
			if n, err := r.Only(i); err != nil {
				return err
			} else if int(n) != want || x.Episode == end {
				return fmt.Errorf("column %s is %v: expected %d, as meta says of the episodes", columns[i], n, want)
			}
		}
		x.row, x.Last = r, x.Step == f.Episodes[x.Episode].Len-1
		if hasTask {
			task, err := r.Only(2)
			if err != nil {
				return err
			}
			x.Task = f.tasks[int(task)]
		}
		if err := videos.read(x); err != nil {
			return err
		}
		err := handle(x)
		x.Number++
		return err
	})
	if err == nil && (x.Episode != end-1 || !x.Last) {
		err = fmt.Errorf("%s: it ends in episode %d: expected episode %d with %d frames", path, x.Episode, end-1,
			f.Episodes[end-1].Len)
	}
	return err
}
