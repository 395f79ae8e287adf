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

// Read reads a folder of LeRobot as demonstrations. fields are the tensors of rollouts, [T,N,...], that the algorithm
// needs. obs are the observations of the environment. Images stay encoded: see algo.Pictures. The names in cfg map
// tensors to columns of the folder. A tensor without such a name is in the column of its own name. An image may also be
// in observation.images.NAME. The reward is in next.reward. In the last frame, next.done says whether the episode
// terminated by itself.
//
// If fields have next observations, the next observation of a frame is that of the frame after it. The last frame of an
// episode has none. If the episode terminated, the frame needs none, because no algorithm reads it. Otherwise the last
// frame is left out, and the frame before it is truncated.
//
// Before Read loads the folder, it calls fits with the bytes that the tensors and the encoded images take. It calls
// fits again if the images take more, as those of videos do. An error of fits ends Read.
func Read(cfg algo.DemoConfig, fields []tensor.Field, obs []env.Field, fits func(tensors, images int64) error) (
	demos tensor.Dict, _ map[string]*algo.Pictures, err error) {
	defer func() {
		if err != nil && !strings.HasPrefix(err.Error(), cfg.LoadPath) {
			err = fmt.Errorf("%s: %w", cfg.LoadPath, err)
		}
	}()
	folder, err := lerobot.Open(cfg.LoadPath)
	if err != nil {
		return demos, nil, err
	}
	if cfg.FPS > 0 && folder.FPS != cfg.FPS {
		return demos, nil, fmt.Errorf("%g frames per second: expected %g, as demo_buffer.fps says", folder.FPS, cfg.FPS)
	}
	s := &source{DatasetFolder: folder}
	if err := s.take(cfg.Names, fields, obs); err != nil {
		return demos, nil, err
	}
	var stored []tensor.Field
	var images []string
	pictures, row := map[string]*algo.Pictures{}, 0
	for i := range s.columns {
		c := &s.columns[i]
		if c.image {
			if c.pictures, err = algo.NewPictures(c.Shape); err != nil {
				return demos, nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			images, pictures[c.Name] = append(images, c.source), c.pictures
			c.DType, c.Shape = tensor.I32, nil // indices
		}
		stored, row = append(stored, c.Field), row+c.Bytes()
		if obs, ok := strings.CutPrefix(c.Name, algo.Observations+"."); ok && s.ahead {
			next := c.Field
			if next.Name = algo.NextObservations + "." + obs; c.image {
				pictures[next.Name] = c.pictures
			}
			stored, row = append(stored, next), row+c.Bytes()
		}
	}
	tensors, estimate := int64(min(float64(row)*float64(s.TotalFrames), 1<<62)), int64(0)
	if len(images) > 0 {
		if estimate, err = s.ImageBytes(images); err != nil {
			return demos, nil, err
		}
	}
	if err := fits(tensors, estimate); err != nil {
		return demos, nil, err
	}
	places, err := s.places(stored)
	if err != nil {
		return demos, nil, err
	}
	var all tensor.Dict
	for _, f := range stored {
		all.Set(f.Name, tensor.New(f.DType, append([]int{s.TotalFrames}, f.Shape...)...))
	}
	m := 0
	err = s.steps(func(x step) error {
		taken := int64(0)
		for i, at := range places {
			if _, t := all.Entry(i); x.kept {
				copy(t.At(m).Bytes(), x.cell(at))
			}
			if p := s.columns[at.column].pictures; p != nil && !at.next {
				taken += int64(p.Bytes())
			}
		}
		if m += int(flag(x.kept)); taken > estimate {
			estimate = taken + 16<<20
			return fits(tensors, taken)
		}
		return nil
	})
	if err == nil && m == 0 {
		err = errors.New("all episodes have one frame: expected frames with a next one")
	}
	if err != nil {
		return demos, nil, err
	}
	demos, err = algo.TakeDemos(all.Slice(0, m), algo.Stored(fields, pictures))
	return demos, pictures, err
}

// take chooses the columns for the fields of rollouts.
func (s *source) take(names map[string]string, fields []tensor.Field, obs []env.Field) error {
	var known []string
	for _, f := range fields {
		if strings.HasPrefix(f.Name, algo.NextObservations+".") {
			s.ahead = true
			continue
		}
		if f.Name == algo.FieldStatus || f.Name == algo.FieldTruncated || f.Name == algo.FieldIntervened {
			continue // an episode that did not terminate is truncated
		}
		known = append(known, f.Name)
		one := tensor.Field{Name: f.Name, DType: f.DType, Shape: f.Shape[2:]}
		from := s.find(f.Name, names)
		switch optional := f.Name == algo.FieldReward || f.Name == algo.FieldTerminated; {
		case from == "" && slices.ContainsFunc(obs, func(o env.Field) bool {
			return o.Text && algo.Observations+"."+o.Name == f.Name
		}):
			from = task
		case from == "" && !optional:
			return fmt.Errorf("no column for %s: expected its name in demo_buffer.names, one of %s", f.Name,
				s.listed())
		}
		if feature, ok := s.Features[from]; ok && f.Name == algo.FieldAction && len(feature.Shape) <= 1 {
			one.Shape = []int{1, f.Shape[3]} // single actions; algo cuts them into chunks
		}
		if err := s.add(one, from); err != nil {
			return err
		}
	}
	if err := among("demo_buffer.names has", names, known); err != nil {
		return err
	}
	if s.ahead && s.find(algo.FieldReward, names) == "" {
		return fmt.Errorf("no column %s: expected rewards; without them a folder is for cloning alone "+
			"(embodied_bc), or demo_buffer.names.reward names their column among %s", nextReward, s.listed())
	}
	if s.column(algo.FieldTerminated) < 0 {
		return errors.New("rollouts without terminated")
	}
	return s.add(tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8}, "")
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
