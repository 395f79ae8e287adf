package lerobot

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/tables"
)

// A Frame is one step of an episode. It is valid only during the call that receives it.
type Frame struct {
	Episode int    // index of the episode
	Step    int    // index in the episode
	Last    bool   // the last frame of the episode
	Task    string // the task in words; "" if the folder names none
	row     *tables.Row
	columns []int     // of the requested features; -1 for videos
	videos  []*stream // of the requested features
}

// Numbers returns the n numbers of requested feature i. The result is valid until the next call.
func (x *Frame) Numbers(i, n int) ([]float64, error) { return x.row.Numbers(x.columns[i], n) }

// Image returns the encoded image of requested feature i, as PNG or JPEG. The caller may keep it.
func (x *Frame) Image(i int) ([]byte, error) {
	if x.columns[i] < 0 {
		return x.videos[i].image, nil
	}
	encoded, err := x.row.Bytes(x.columns[i])
	return slices.Clone(encoded), err
}

// ImageBytes returns the total size of the encoded images of the given features. For images in tables the size is
// exact, except for repeated images. For videos it is the size of the video files, which is less than that of PNG
// images.
func (f *DatasetFolder) ImageBytes(features []string) (n int64, err error) {
	done := map[string]bool{}
	for _, e := range f.Episodes {
		for video, path := range e.files {
			if done[path] || video != "" && !slices.Contains(features, video) {
				continue
			}
			done[path] = true
			if video != "" {
				info, err := os.Stat(path)
				if err != nil {
					return 0, err
				}
				n += info.Size()
				continue
			}
			t, err := tables.Open(path)
			if err != nil {
				return 0, err
			}
			for _, name := range features {
				n += t.Bytes(name + ".bytes")
			}
			t.Close()
		}
	}
	return n, nil
}

// Frames calls handle for each frame of the dataset, in order. features are the requested features of a Frame.
func (f *DatasetFolder) Frames(features []string, handle func(*Frame) error) error {
	for _, name := range features {
		if _, ok := f.Features[name]; !ok {
			return fmt.Errorf("%s: no feature %s: it has %s", f.Dir, name,
				strings.Join(slices.Sorted(maps.Keys(f.Features)), ", "))
		}
	}
	x := &Frame{columns: make([]int, len(features)), videos: make([]*stream, len(features))}
	defer func() {
		for _, v := range x.videos {
			v.close()
		}
	}()
	for end := 0; end < len(f.Episodes); {
		x.Episode, x.Step = end, -1
		for path := f.Episodes[end].files[""]; end < len(f.Episodes) && f.Episodes[end].files[""] == path; {
			end++
		}
		if err := f.framesIn(end, features, x, handle); err != nil {
			return err
		}
	}
	return nil
}

// framesIn calls handle for each frame of the episodes from x.Episode to end-1. All these episodes are in one file.
func (f *DatasetFolder) framesIn(end int, features []string, x *Frame, handle func(*Frame) error) error {
	path := f.Episodes[x.Episode].files[""]
	t, err := tables.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	columns := []string{EpisodeIndex, FrameIndex}
	if t.Has(TaskIndex) {
		columns = append(columns, TaskIndex)
	}
	numbers := columns
	for i, name := range features {
		x.columns[i] = len(columns)
		switch f.Features[name].DType {
		case "video":
			x.columns[i] = -1
			continue
		case "image":
			if name += ".bytes"; !t.Has(name) {
				return fmt.Errorf("%s: no column %s: expected images in the table", path, name)
			}
		}
		columns = append(columns, name)
	}
	err = t.Each(columns, func(r *tables.Row) error {
		if x.Step++; x.Episode < end && x.Step == f.Episodes[x.Episode].Len {
			x.Episode, x.Step = x.Episode+1, 0
		}
		for i, want := range []int{x.Episode, x.Step, 0}[:len(numbers)] {
			n, err := r.Only(i)
			switch {
			case err != nil:
				return err
			case i == 2:
				x.Task = f.tasks[int(n)]
			case int(n) != want || x.Episode == end:
				return fmt.Errorf("column %s is %v: expected %d, as meta says of the episodes", numbers[i], n, want)
			}
		}
		e := &f.Episodes[x.Episode]
		x.row, x.Last = r, x.Step == e.Len-1
		for i, name := range features {
			if x.columns[i] < 0 {
				if x.videos[i], err = x.videos[i].at(e.files[name], e.begin[name]+x.Step); err != nil {
					return err
				}
			}
		}
		return handle(x)
	})
	if err == nil && (x.Episode != end-1 || !x.Last) {
		err = fmt.Errorf("%s: it ends in episode %d: expected episode %d with %d frames", path, x.Episode, end-1,
			f.Episodes[end-1].Len)
	}
	return err
}
