package dataset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/tensor"
)

// Read reads a folder of LeRobot as demonstrations. fields are those of rollouts, [T,N,...], that the algorithm needs;
// obs are the observations of the environment. Images stay encoded: see algo.Pictures. The names of cfg lead from
// tensors to columns of the folder. A tensor without a name is in the column of its own name, an image also in
// observation.images.NAME. The reward is in next.reward, and next.done says at the last frame whether the episode
// terminated by itself.
//
// If fields have next observations, the next observation of a frame is that of the frame after it. The last frame of an
// episode has none: it is left out and the frame before it is truncated, unless the episode terminated, because then no
// algorithm reads the next observation.
func Read(cfg algo.DemoConfig, fields []tensor.Field, obs []env.Field) (tensor.Dict, map[string]*algo.Pictures, error) {
	demos, pictures, err := read(cfg, fields, obs)
	if err != nil && !strings.HasPrefix(err.Error(), cfg.LoadPath) {
		err = fmt.Errorf("%s: %w", cfg.LoadPath, err)
	}
	return demos, pictures, err
}

func read(cfg algo.DemoConfig, fields []tensor.Field, obs []env.Field) (demos tensor.Dict,
	pictures map[string]*algo.Pictures, err error) {
	folder, err := lerobot.Open(cfg.LoadPath)
	if err != nil {
		return demos, nil, err
	}
	if cfg.FPS > 0 && folder.FPS != cfg.FPS {
		return demos, nil, fmt.Errorf("%g frames per second: expected %g, as demo_buffer.fps says", folder.FPS, cfg.FPS)
	}
	s := &source{Folder: folder}
	ahead, err := s.take(cfg.Names, fields, obs)
	if err != nil {
		return demos, nil, err
	}
	all, pictures := tensor.Dict{}, map[string]*algo.Pictures{}
	for _, c := range s.columns {
		t := tensor.Tensor{}
		if c.image {
			if pictures[c.Name], err = algo.NewPictures(c.Shape); err != nil {
				return demos, nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			t = tensor.New(tensor.I32, folder.TotalFrames)
		} else {
			t = tensor.New(c.DType, append([]int{folder.TotalFrames}, c.Shape...)...)
		}
		all.Set(c.Name, t)
	}
	if err := folder.Frames(s.features, func(x *lerobot.Frame) error { return s.store(all, pictures, x) }); err != nil {
		return demos, nil, err
	}
	if err := s.end(&all); err != nil {
		return demos, nil, err
	}
	if ahead {
		if all, err = s.lookAhead(all, pictures); err != nil {
			return demos, nil, err
		}
	}
	demos, err = algo.TakeDemos(all, algo.Stored(fields, pictures))
	return demos, pictures, err
}

// take chooses the columns for the fields of rollouts. It reports whether fields have next observations.
func (s *source) take(names map[string]string, fields []tensor.Field, obs []env.Field) (ahead bool, err error) {
	var known []string
	for _, f := range fields {
		if strings.HasPrefix(f.Name, algo.NextObservations+".") {
			ahead = true
			continue
		}
		if f.Name == algo.FieldStatus || f.Name == algo.FieldTruncated {
			continue // an episode that did not terminate is truncated
		}
		known = append(known, f.Name)
		one := tensor.Field{Name: f.Name, DType: f.DType, Shape: f.Shape[2:]}
		from := s.find(f.Name, names)
		switch optional := f.Name == algo.FieldReward || f.Name == algo.FieldTerminated; {
		case from == "" && isText(f.Name, obs):
			from = task
		case from == "" && !optional:
			return false, fmt.Errorf("no column for %s: expected its name in demo_buffer.names, one of %s", f.Name,
				s.listed())
		}
		if feature, ok := s.Features[from]; ok && f.Name == algo.FieldAction && len(feature.Shape) <= 1 {
			one.Shape = []int{1, f.Shape[3]} // single actions; algo cuts them into chunks
		}
		if err := s.add(one, from); err != nil {
			return false, err
		}
	}
	if err := among("demo_buffer.names has", names, known); err != nil {
		return false, err
	}
	if ahead && s.find(algo.FieldReward, names) == "" {
		return false, fmt.Errorf("no column %s: expected rewards; without them a folder is for cloning alone "+
			"(embodied_bc), or demo_buffer.names.reward names their column among %s", nextReward, s.listed())
	}
	return ahead, nil
}

// among returns an error, which begins with key, if names has a tensor that is not known.
func among(key string, names map[string]string, known []string) error {
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s %s: expected names among %s", key, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// store stores a frame in the tensors of all frames.
func (s *source) store(all tensor.Dict, pictures map[string]*algo.Pictures, x *lerobot.Frame) error {
	for i := range s.columns {
		c, t := &s.columns[i], all.Must(s.columns[i].Name).At(x.Number)
		if !c.image {
			if err := s.fill(t.Bytes(), c, x); err != nil {
				return err
			}
			continue
		}
		encoded, err := x.Image(c.feature)
		if err != nil {
			return err
		}
		at, err := pictures[c.Name].Add(encoded)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.source, err)
		}
		t.I32()[0] = int32(at)
	}
	return nil
}

// end sets the ends of episodes: at the last frame of each, and nowhere else. all must have terminated.
func (s *source) end(all *tensor.Dict) error {
	t, ok := all.Get(algo.FieldTerminated)
	if !ok {
		return errors.New("rollouts without terminated")
	}
	flags, truncated := t.U8(), tensor.New(tensor.U8, s.TotalFrames)
	at := 0
	for _, e := range s.Episodes {
		clear(flags[at : at+e.Len-1])
		at += e.Len
		if flags[at-1] != 0 {
			flags[at-1] = 1
		} else {
			truncated.U8()[at-1] = 1
		}
	}
	all.Set(algo.FieldTruncated, truncated)
	return nil
}

// lookAhead returns the transitions of all frames with next observations. Next images share the images of observations.
func (s *source) lookAhead(all tensor.Dict, pictures map[string]*algo.Pictures) (tensor.Dict, error) {
	var rows, next []int
	terminated, truncated := all.Must(algo.FieldTerminated).U8(), all.Must(algo.FieldTruncated).U8()
	at := 0
	for _, e := range s.Episodes {
		for i := at; i < at+e.Len-1; i++ {
			rows, next = append(rows, i), append(next, i+1)
		}
		at += e.Len
		if last := at - 1; terminated[last] != 0 {
			rows, next = append(rows, last), append(next, last)
		} else if e.Len > 1 {
			truncated[last-1] = 1
		}
	}
	if len(rows) == 0 {
		return tensor.Dict{}, errors.New("all episodes have one frame: expected frames with a next one")
	}
	var d tensor.Dict
	for i := range all.Len() {
		name, t := all.Entry(i)
		d.Set(name, gather(t, rows))
		if obs, ok := strings.CutPrefix(name, algo.Observations+"."); ok {
			d.Set(algo.NextObservations+"."+obs, gather(t, next))
			if p := pictures[name]; p != nil {
				pictures[algo.NextObservations+"."+obs] = p
			}
		}
	}
	return d, nil
}

// gather returns the given rows of t.
func gather(t tensor.Tensor, rows []int) tensor.Tensor {
	g := tensor.New(t.DType(), append([]int{len(rows)}, t.Shape()[1:]...)...)
	for i, row := range rows {
		copy(g.At(i).Bytes(), t.At(row).Bytes())
	}
	return g
}
